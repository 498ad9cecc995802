#!/usr/bin/env python3
"""The real selector of one Transformer Engine release: host.py CACHE VERSION|installed [--fused-half PROGRAM]

Writes {"release": version} when it is ready, then reads one JSON object a line, {"cases": [text..], "env": {key:
value}, "full": bool}, and answers one line a case (full: reasons with their values filled in): what the release's own
get_attention_backend decides when DotProductAttention asks it for that case, for any pretended arch, cuDNN and
FlashAttention version, on a machine without a GPU. CACHE is the folder that fetch.py fills; PROGRAM is the built
kernels/te_fused_half.cpp, asked for the C++ half of releases up to 2.19 (2.20's builds cuDNN graphs: there the
environment's te.fused_answer stands for it). A question that cannot be put is answered {"error": sentence}.

{"winner", "admitted", "sub", "flash", "flash_version", "fused", "unfused", "available", "reasons", "seconds"}: winner is
fa2, fa3, fa4, fused, unfused or null; admitted are all that are left before the tie-break; sub is the fused sub-backend;
seconds is what get_attention_backend itself took.
"""
import argparse
import ast
import dataclasses
import functools
import importlib.metadata
import json
import logging
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import time
import types
import warnings

import cases
import fetch

RECIPES = {"delayed": "DelayedScaling", "current": "Float8CurrentScaling", "mxfp8": "MXFP8BlockScaling",
           "block": "Float8BlockScaling", "nvfp4": "NVFP4BlockScaling"}
FA_MODULES = ("flash_attn", "flash_attn.flash_attn_interface", "flash_attn_2_cuda", "flash_attn_3",
              "flash_attn_3.flash_attn_interface", "flash_attn_interface", "flash_attn.cute",
              "flash_attn.cute.interface")


def package_version(key, value):
    """An environment's package version as the package itself states it; None where it is not installed."""
    if value in (None, "none"):
        return None
    if key == "fa3" and value[:2] == "20":  # a build is named by its month; the version string changed in 2026-02
        return "3.0.0b1" if value < "2026-02" else "3.0.0"
    return "4.0.0" + value if key == "fa4" and value[0] == "b" else value


def cudnn_number(text):
    """9.1.1 -> 90101, 8.9.3 -> 8903: CUDNN_VERSION."""
    if text == "none":
        return 0
    major, minor, patch = (int(part) for part in (text.split(".") + ["0", "0"])[:3])
    return major * (10000 if major >= 9 else 1000) + minor * 100 + patch


class AnyModule(types.ModuleType):
    """A module that has every function."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class FusedHalf:
    """The C++ half of a release in its own process, restarted if it dies."""

    def __init__(self, program, cache, root, arguments):
        self.command = [program, str(root / "transformer_engine/wheel_lib/libtransformer_engine.so"), str(arguments)]
        places = [pathlib.Path(place) / "nvidia" for place in (sysconfig.get_path("purelib"), *sys.path)]
        vendor = next((place for place in places if (place / "cudnn").is_dir()), places[0])
        folders = [self.driver(cache)] + [vendor / name / "lib" for name in ("cudnn", "cu13", "nccl")]
        self.environment = dict(os.environ, LD_LIBRARY_PATH=":".join(map(str, folders)))
        self.process = None

    @staticmethod
    def driver(cache):
        """Some releases link the driver and call nothing of it: an empty one will do."""
        folder = (cache if cache.is_dir() else pathlib.Path(tempfile.mkdtemp(prefix="attest-"))) / "lib"
        if not (folder / "libcuda.so.1").exists():
            folder.mkdir(exist_ok=True)
            subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", folder / "libcuda.so.1"], check=True)
        return folder

    def ask(self, *numbers):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(self.command, env=self.environment, text=True, bufsize=1,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdin.write(" ".join(repr(n) if isinstance(n, float) else str(int(n)) for n in numbers) + "\n")
        answer = self.process.stdout.readline()
        if not answer or answer[0] == "!":
            raise RuntimeError(answer[2:].strip() or "nvte_get_fused_attn_backend ended its process")
        return int(answer)


class Host:
    """One release; a process can hold one."""

    def __init__(self, cache, version, fused_half=None):
        self.cache = pathlib.Path(cache)
        self.now = {"cc": (9, 0), "cudnn": 91900, "answer": None}
        root, release = self.find(version)
        self.release = release
        self.version = tuple(int(part) for part in release.split(".")[:2])
        self.half = fused_half and FusedHalf(fused_half, self.cache, root, 18 if self.version < (2, 12) else 19)
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        for name in [name for name in os.environ if name.startswith("NVTE_")]:
            del os.environ[name]
        warnings.simplefilter("ignore")
        self.pretend_device()
        import stand_in
        self.extension = stand_in.load(root, release)
        self.import_selector()
        self.listen()

    def find(self, version):
        """(folder that holds transformer_engine, full version) of a release in the cache, or of the installed one."""
        if version != "installed":
            return self.cache / "te" / version, fetch.RELEASES[version]
        for name in ("transformer-engine", "transformer-engine-cu13", "transformer-engine-cu12"):
            try:
                package = importlib.metadata.distribution(name)
            except importlib.metadata.PackageNotFoundError:
                continue
            return pathlib.Path(package.locate_file("")), package.version
        raise SystemExit("no Transformer Engine is installed for this Python: pip install 'transformer-engine[pytorch]', "
                         "or unpack a release with fetch.py and ask te@VERSION")

    def pretend_device(self):
        import torch
        self.torch = torch
        torch.cuda.is_available = lambda: True
        torch.cuda.device_count = lambda: 1
        torch.cuda.current_device = lambda: 0
        torch.cuda.get_device_capability = lambda *args: self.now["cc"]
        torch.cuda.get_device_properties = lambda *args: types.SimpleNamespace(
            major=self.now["cc"][0], minor=self.now["cc"][1], multi_processor_count=132, total_memory=1 << 37)

    def import_selector(self):
        from importlib import import_module
        attention = "transformer_engine.pytorch.attention.dot_product_attention."
        self.utils = import_module(attention + "utils")
        self.backends = import_module(attention + "backends")
        self.recipes = import_module("transformer_engine.common.recipe")
        self.common = import_module("transformer_engine.common")
        utils = import_module("transformer_engine.pytorch.utils")
        extensions = import_module("transformer_engine.pytorch.cpp_extensions")
        self.extension.get_cudnn_version = extensions.get_cudnn_version = lambda: self.now["cudnn"]
        self.caches = [getattr(utils, name) for name in
                       ("_get_device_compute_capability", "get_device_compute_capability", "_get_cudnn_version",
                        "get_cudnn_version") if hasattr(getattr(utils, name, None), "cache_clear")]
        self.extension.get_fused_attn_backend = self.fused_backend
        self.fields = [field.name for field in dataclasses.fields(self.utils.AttentionParams)]
        kind = self.utils.FlashAttentionUtils
        self.pristine = {k: v for k, v in vars(kind).items()
                         if not k.startswith("__") and not isinstance(v, (staticmethod, classmethod))}
        blocks = [node for node in ast.parse(pathlib.Path(self.backends.__file__).read_text()).body
                  if isinstance(node, ast.Try) and "get_pkg_version(" in ast.unparse(node)]
        self.start_up = [compile(ast.Module([node], []), self.backends.__file__, "exec") for node in blocks]

    def listen(self):
        """Takes the place of the selector's log: collects its reasons, and its flags where it sums them up."""
        self.reasons, self.flags, self.asked = [], None, False
        logging.getLogger(self.utils.__name__).setLevel(logging.CRITICAL)
        logger = logging.getLogger("DotProductAttention")
        logger.addHandler(logging.NullHandler())
        self.utils.AttentionLogging._log_level = logging.DEBUG

        def hear(message, *args, **kwargs):
            if message.startswith("Disabling"):
                self.reasons.append((message, args))
            elif message.startswith("Available backends"):
                self.flags, self.decided = sys._getframe(1).f_locals, len(self.reasons)
        logger.setLevel = lambda level: None  # asked every time, and slow
        logger.debug = logger.warning = logger.info = hear

    def fused_backend(self, *args):
        """Stands for the extension's function of this name: the C++ function, or te.fused_answer from 2.20 on."""
        self.asked = True
        numbers = self.extension.NVTE_Fused_Attn_Backend
        if self.version >= (2, 20):
            answer = self.now["answer"]
            if answer == "auto":
                answer = "fp8" if "Float8" in args[0].qkv_dtype.name else "f16"
            name = {"f16": "NVTE_F16_arbitrary_seqlen", "fp8": "NVTE_FP8", "none": "NVTE_No_Backend"}[answer]
            return numbers[name], "te.fused_answer"
        if self.half is None:
            raise RuntimeError("the C++ half needs --fused-half")
        deterministic = args[18] if len(args) > 18 else False
        forced = os.environ.get("NVTE_FUSED_ATTN_BACKEND", "-1")
        cc = self.now["cc"]
        return numbers(self.half.ask(*args[:7], float(args[7]), *args[8:18], deterministic, cc[0] * 10 + cc[1],
                                     self.now["cudnn"], forced))

    @functools.lru_cache(None)
    def flash_state(self, cc, fa2, fa3, fa4, softcap):
        """Members of FlashAttentionUtils after the release's own start-up code has seen these packages."""
        state = self.utils.FlashAttentionUtils
        for name, value in self.pristine.items():
            setattr(state, name, value)
        installed = {"flash-attn": fa2, "flash-attn-3": fa3, "flash-attn-4": fa4,
                     "nvidia-cutlass-dsl": "4.8.1" if fa4 else None}

        def get_version(name):
            if installed.get(name) is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return installed[name]
        modules = {name: AnyModule(name) for name in FA_MODULES}
        if fa4:
            modules["flash_attn.cute.interface"]._validate_head_dims = self.fa4_check(fa4)
        if softcap:
            for name in ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"):
                setattr(modules["flash_attn_interface"], name, lambda q=None, softcap=0.0: None)
                setattr(modules["flash_attn_3.flash_attn_interface"], name, lambda q=None, softcap=0.0: None)
        before = {name: sys.modules.get(name) for name in modules}
        sys.modules.update(modules)
        try:
            names = dict(vars(self.backends), get_pkg_version=get_version)
            for block in self.start_up:
                exec(block, names)
        finally:
            for name, module in before.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module
        return {name: getattr(state, name) for name in self.pristine}

    @functools.lru_cache(None)
    def fa4_check(self, version):
        """FA4's own _validate_head_dims, out of its wheel in the cache or of the installed package."""
        path = self.cache / "fa4" / version / "flash_attn/cute/interface.py"
        if not path.exists():
            package = importlib.metadata.distribution("flash-attn-4")
            if package.version != version:
                raise SystemExit(f"host.py: flash-attn-4 {version} is neither in the cache nor installed")
            path = pathlib.Path(package.locate_file("flash_attn/cute/interface.py"))
        source = path.read_text()
        found = [node for node in ast.parse(source).body
                 if isinstance(node, ast.FunctionDef) and node.name == "_validate_head_dims"]
        names = {"lru_cache": functools.lru_cache, "functools": functools}
        exec(compile(ast.Module(found, []), "flash_attn/cute/interface.py", "exec"), names)
        return names["_validate_head_dims"]

    def unloadable(self, env):
        """Why the release would not be imported beside this cuDNN, or None."""
        if env["cudnn"] == "none":
            return "OSError: libtransformer_engine.so is linked with libcudnn.so.9, which is not installed"
        check = getattr(self.common, "check_cudnn_version", None)
        try:
            if check is not None:  # since 2.20
                check(cudnn_number(env["cudnn"]))
        except RuntimeError as error:
            return f"{type(error).__name__}: {error}"
        return None

    def pretend(self, arch, env):
        """Undoes everything that a former question left behind, then sets what this one needs."""
        for name in [name for name in os.environ if name.startswith("NVTE_")]:
            del os.environ[name]
        os.environ.update(cases.switches(env))
        now = {"cc": divmod(int(arch[2:]), 10), "cudnn": cudnn_number(env["cudnn"]),
               "answer": cases.option(env, "te.fused_answer")}
        if now["cc"] != self.now["cc"] or now["cudnn"] != self.now["cudnn"]:
            for cache in self.caches:
                cache.cache_clear()
        self.now = now
        packages = [package_version(key, env.get(key)) for key in ("fa2", "fa3", "fa4")]
        for name, value in self.flash_state(now["cc"], *packages, cases.option(env, "te.fa3_softcap")).items():
            setattr(self.utils.FlashAttentionUtils, name, value)

    def build(self, values):
        """AttentionParams of this release from plain values."""
        values = {key: value for key, value in values.items() if key in self.fields}
        kinds = {"tensor": self.torch.Tensor, "float8": self.utils.Float8Tensor,
                 "mxfp8": getattr(self.utils, "MXFP8Tensor", None)}
        values["qkv_type"] = kinds[values["qkv_type"]]
        for key in ("qkv_dtype", "nominal_dtype"):
            if key in values:
                values[key] = getattr(self.torch, values[key])
        values["window_size"] = self.utils.check_set_window_size(values["attn_mask_type"], values["window_size"])
        meta = values["fp8_meta"]
        if meta is not None:
            recipe = getattr(self.recipes, RECIPES[meta["recipe"]])
            values["fp8_meta"] = {"recipe": recipe(fp8_dpa=meta["fp8_dpa"], fp8_mha=meta["fp8_mha"])}
        if values["inference_params"] is not None:
            values["inference_params"] = types.SimpleNamespace(
                total_num_pages=64, cache_manager=types.SimpleNamespace(max_pages_per_seq=8),
                **values["inference_params"])
        return self.utils.AttentionParams(**values)

    def said(self, full):
        """The reasons given, as they stand in the source or with their values."""
        return [message % args if full and args else message for message, args in self.reasons]

    def ask(self, text, env, full=False):
        """The decision for a case in an environment."""
        case = cases.parse(text)
        why = cases.unsayable(case, env, self.version) or self.unloadable(env)
        self.reasons.clear()
        self.flags, self.decided, self.asked, self.seconds = None, None, False, 0.0
        if why is None:
            self.pretend(case["arch"] if case["arch"] != "any" else env["arch"], env)
            try:
                parameters = self.build(cases.parameters(case, env, self.version))
                begin = time.perf_counter()
                result = self.utils.get_attention_backend(parameters)
                self.seconds = time.perf_counter() - begin
            except Exception as error:  # what the release raises is its answer
                why = f"{type(error).__name__}: {error}".split("\n")[0][:160]
        if why is not None:
            return {"winner": None, "admitted": [], "sub": None, "flash": False, "flash_version": None,
                    "fused": None, "unfused": False, "available": [False] * 3, "refused_by": why,
                    "reasons": self.said(full)}
        flash, flash_version, fused, sub, unfused, available = result
        admitted = [f"fa{n}" for n in (2, 3, 4) if self.flags.get(f"use_flash_attention_{n}")]
        admitted += [name for name, on in zip(("fused", "unfused"), available[1:]) if on]
        if bool(available[0]) != any(name.startswith("fa") for name in admitted):
            raise AssertionError("the selector's flags and its answer disagree")
        winner = f"fa{str(flash_version)[0]}" if flash else "fused" if fused else "unfused" if unfused else None
        return {"winner": winner, "admitted": admitted, "sub": int(sub) if available[1] else None,
                "flash": bool(flash), "flash_version": None if flash_version is None else str(flash_version),
                "fused": int(sub) if fused else None, "unfused": bool(unfused),
                "available": [bool(on) for on in available],
                "reasons": self.said(full)}


def answer(host, case, env, full):
    """The decision, or why it could not be asked for."""
    try:
        result = host.ask(case, env, full)
        result["seconds"] = host.seconds
        result["reasons"] = result["reasons"][:host.decided]  # later ones break ties and refuse nobody
        return result
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cache")
    parser.add_argument("version", choices=[*fetch.RELEASES, "installed"])
    parser.add_argument("--fused-half")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    host = Host(arguments.cache, arguments.version, arguments.fused_half)
    if host.version < (2, 20) and host.half is None:
        raise SystemExit(f"the C++ half of Transformer Engine {host.release} is asked through te_fused_half: build it")
    print(json.dumps({"release": host.release}), file=answers)
    for line in sys.stdin:
        question = json.loads(line)
        for case in question["cases"]:
            print(json.dumps(answer(host, case, question["env"], question.get("full", False))), file=answers)



if __name__ == "__main__":
    main()
