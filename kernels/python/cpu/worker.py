#!/usr/bin/env python3
"""A worker that hosts Python packages: attest sweep SUITE --worker 'python3 kernels/python/cpu/worker.py [ADAPTER...]'

An adapter is a module here or a path to a .py file; without a name all of them are tried. It has PACKAGE, the pip
name, and backends(), a list of objects with

    name version doc arch as in the hello ("cpu" without arch)
    numeric contract      the numeric class, and what is promised on dead rows (at_foreign_promise)
    promises              of the protocol; "stats" that are not promised are not judged
    claim(case)           names of engines, best first; raises Unsupported
    forward(problem, engine), backward(problem, engine)
                          fill the outputs; what they raise is a refusal by the library
"""
import importlib.util, json, os, pathlib, re, sys, time

HERE = pathlib.Path(__file__).resolve().parent
ADAPTERS = ("ort_attention", "ort_contrib", "onnx_reference", "jax_xla", "torch_cpu")


def load(name):
    """The adapter's backends, or a sentence on what is missing."""
    path = pathlib.Path(name) if name.endswith(".py") else HERE / f"{name}.py"
    if not path.exists():
        return f"{name}: no such adapter, there are {', '.join(ADAPTERS)} and paths to .py files"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return list(module.backends())
    except ImportError as gone:
        package = getattr(module, "PACKAGE", gone.name)
        return f"{path.stem}: {gone.name} is missing, `{sys.executable} -m pip install {package}` installs it"


def sentence(error):
    """The library's message on one line, without colours, paths of its sources and colons of C++ names."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error) or type(error).__name__)
    text = re.sub(r"/\S*/(?=[\w.]+(:\d+)?)", "", text)
    return " ".join(text.split())[:400]


class Worker:
    def __init__(self, out, backends):
        self.out, self.backends = out, {b.name: b for b in backends}

    def send(self, event, **members):
        print(json.dumps({"event": event, **members}), file=self.out, flush=True)

    def hello(self):
        listed = [{"name": b.name, "version": b.version, "arch": getattr(b, "arch", "cpu"), "numeric": b.numeric,
                   "promises": list(b.promises), "doc": b.doc} for b in self.backends.values()]
        versions = {"python": sys.version.split()[0]}
        for b in self.backends.values():
            versions.update(b.packages)
        self.send("hello", protocol=1, abi=1, backends=listed, versions=versions)

    def serve(self, request):
        backend = self.backends.get(request["backend"])
        if backend is None:
            self.send("error", id=request["id"], message=f"no backend \"{request['backend']}\" in this worker")
            return
        case = Case(request["case"])
        self.send("begin", id=request["id"], step="claim")
        try:
            engine = self.claim(request, backend, case)
        except Unsupported as no:
            self.send("verdict", id=request["id"], engine="", status="UNSUPPORTED", reason=no.code, message=str(no))
            return
        self.send("begin", id=request["id"], step="reference")
        contract = {**backend.contract, "stats": "stats" in backend.promises}
        problem = Problem(case, backend.numeric, contract)
        try:
            if problem.ready:
                self.launch(request, backend, problem, engine)
            self.send("verdict", id=request["id"], engine=engine, **problem.verdict())
        finally:
            problem.close()

    def claim(self, request, backend, case):
        need(case["pass"] != "train" or "backward" in backend.promises, "pass",
             f"pass=train: {backend.name} has no backward")
        need(case["pass"] != "stats" or "stats" in backend.promises, "pass",
             f"pass=stats: {backend.name} does not write LSE")
        engines = backend.claim(case)
        wanted = request.get("engine") or engines[0]
        need(wanted in engines, "engine", f"no engine \"{wanted}\" here, but {', '.join(engines)}")
        self.send("claim", id=request["id"], admitted=True, engines=engines, engine=wanted)
        return wanted

    def launch(self, request, backend, problem, engine):
        case = problem.case
        if request.get("dump"):
            problem.dump(request["dump"], f"case     {case.text}\nbackend  {backend.name}@{backend.version}\n"
                                          f"engine   {engine}\n")
        steps = ("forward", "backward") if case["pass"] == "train" else ("forward",)
        for step in steps:
            self.send("begin", id=request["id"], step=step)
            start, refusal = time.perf_counter(), None
            try:
                getattr(backend, step)(problem, engine)
            except Exception as error:
                refusal = sentence(error)
            ms = 1e3 * (time.perf_counter() - start)
            self.send("begin", id=request["id"], step="judge")
            if not problem.judge(step, ms, refusal):
                return


def main(names):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    backends = []
    for name in names or ADAPTERS:
        found = load(name)
        if isinstance(found, str):
            print(f"worker: {found}", file=sys.stderr)
        else:
            backends += found
    if not backends:
        sys.exit("worker: no package that an adapter needs is installed")
    worker = Worker(out, backends)
    worker.hello()
    for line in sys.stdin:
        worker.serve(json.loads(line))
    worker.send("bye")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    from problem import Case, Problem, Unsupported, need
    main(sys.argv[1:])
