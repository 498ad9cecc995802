"""Cases and their tensors for adapters: libattest through ctypes, tensors as NumPy views of its memory."""
import ctypes as C, json, os, pathlib

import numpy as np


def _load():
    build = pathlib.Path(__file__).resolve().parents[3] / "build" / "libattest.so.1"
    lib = C.CDLL(os.environ.get("LIBATTEST") or (str(build) if build.exists() else "libattest.so.1"))
    text, run, number, long = C.c_char_p, C.c_void_p, C.c_double, C.c_int64
    for name, result, arguments in (
            ("at_case_parse", C.c_int, [C.c_void_p, text, C.c_void_p]),
            ("at_case_field", C.c_void_p, [text, C.c_size_t]),
            ("at_case_value", C.c_size_t, [C.c_void_p, C.c_void_p, text]),
            ("at_extent_of", Extent, [C.c_void_p, long]),
            ("at_foreign_open", run, [text, text]),
            ("at_foreign_ready", C.c_int, [run]),
            ("at_foreign_close", None, [run]),
            ("at_foreign_promise", C.c_int, [run, text]),
            ("at_foreign_dump", None, [run, text, text]),
            ("at_foreign_number", number, [run, text]),
            ("at_foreign_tensor", C.c_void_p, [run, text, C.c_void_p, C.c_void_p, C.c_void_p]),
            ("at_foreign_judge", C.c_int, [run, text, text, number]),
            ("at_foreign_verdict", text, [run])):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


class Extent(C.Structure):
    _fields_ = [("len_q", C.c_int64), ("len_kv", C.c_int64), ("diag", C.c_int64)]


class Unsupported(Exception):
    """The case is not one for this backend: a reason code and one sentence."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Case:
    """A case by its keys: case["hq"] is a number, case["mask"] a word; defaults are resolved."""
    SIZE, TEXT = 1 << 14, 2048  # room for at_case, AT_CASE_TEXT_MAX

    def __init__(self, text):
        self.text, self.c, self.known = text, C.create_string_buffer(self.SIZE), {}
        error = C.create_string_buffer(512)
        if lib.at_case_parse(self.c, text.encode(), error) != 0:
            raise ValueError(error.value.decode())

    def __getitem__(self, key):
        if key not in self.known:
            value = C.create_string_buffer(self.TEXT)
            lib.at_case_value(self.c, lib.at_case_field(key.encode(), len(key)), value)
            word = value.value.decode()
            try:
                self.known[key] = int(word)
            except ValueError:
                try:
                    self.known[key] = float(word)
                except ValueError:
                    self.known[key] = word
        return self.known[key]

    def extents(self):
        """[b] each: live rows, live keys, offset of the diagonal."""
        found = [lib.at_extent_of(self.c, b) for b in range(self["b"])]
        return (np.array([getattr(x, name) for x in found], np.int64) for name in ("len_q", "len_kv", "diag"))

    @property
    def has_lengths(self):
        return self["lens"] != "none" or self["lenq"] != "none"

    @property
    def has_diagonal(self):
        """The mask depends on where the diagonal starts."""
        return self["mask"] == "causal" or (self["mask"] == "band" and (self["wl"], self["wr"]) != (-1, -1))


# What an adapter that says nothing of a key can be asked; the keys that are not here take any value.
PLAIN = {"invalid": (0,), "dtype": ("f32", "f16", "bf16"), "layout": ("bshd",), "pack": ("none",),
         "stride": ("packed",), "gap": (0,), "page": (0,), "splits": (0,), "dropout": (0,), "sink": ("none",),
         "softcap": (0,), "det": (0,), "exec": ("once",), "bias": ("none", "rel.11", "rel.1h", "rel.b1", "rel.bh"),
         "arch": ("any", "cpu")}


def limit(case, **takes):
    """Unsupported for the first key whose value the library has no words for."""
    for key, values in {**PLAIN, **takes}.items():
        if values is not None and case[key] not in values:
            raise Unsupported(key, f"{key}={case[key]}: the library cannot be asked for it")
    need(case["odt"] == case["dtype"], "odt", f"odt={case['odt']}: the output has the type of the inputs")
    need(case["hv"] == case["hkv"], "hv", "hv: keys and values have the same heads")


def need(condition, code, text):
    if not condition:
        raise Unsupported(code, text)


def _dtype(name):
    if name == "bf16":
        import ml_dtypes
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype({"f32": np.float32, "f16": np.float16, "u8": np.uint8, "i32": np.int32}[name])


class Problem:
    """One run: inputs, guarded outputs and the judge. Tensors are indexed [b h s d], whatever the layout."""

    def __init__(self, case, numeric, contract):
        self.case = case
        self.run = lib.at_foreign_open(case.text.encode(), json.dumps(numeric).encode())
        self.ready = bool(lib.at_foreign_promise(self.run, json.dumps(contract).encode()) and
                          lib.at_foreign_ready(self.run))
        self.scale = lib.at_foreign_number(self.run, b"scale")
        self.len_q, self.len_kv, self.diag = case.extents()

    def tensor(self, name):
        """A view of the tensor's own memory, or None where the case has no such tensor."""
        shape, stride, dtype = (C.c_int64 * 4)(), (C.c_int64 * 4)(), C.c_char_p()
        address = lib.at_foreign_tensor(self.run, name.encode(), shape, stride, C.byref(dtype))
        if not address:
            return None
        kind = _dtype(dtype.value.decode())
        if 0 in tuple(shape):
            return np.zeros(tuple(shape), kind)
        size = 1 + sum((n - 1) * step for n, step in zip(shape, stride))
        memory = (C.c_char * (size * kind.itemsize)).from_address(address)
        return np.ndarray(tuple(shape), kind, memory, 0, tuple(step * kind.itemsize for step in stride))

    def rows(self, name):
        """The same as [b s h d]."""
        found = self.tensor(name)
        return None if found is None else found.transpose(0, 2, 1, 3)

    def store(self, name, out, lengths):
        """Copies [b h s d] into the tensor; where the library was given lengths, only the rows within them, since
        it does not say what the others hold."""
        view = self.tensor(name)
        if not self.case.has_lengths:
            view[...] = out
            return
        for b, length in enumerate(lengths):
            view[b, :, :length] = out[b, :, :length]

    def mask(self):
        """The dense mask or bias that the case asks for [b|1 h|1 sq skv], as bool or as numbers to add."""
        if self.case["amask"] == "none":
            return self.tensor("bias")
        found = self.tensor("amask")
        return found.astype(bool) if self.case["amask"].startswith("bool") else found

    def judge(self, step, ms, refusal=None):
        return lib.at_foreign_judge(self.run, step.encode(), None if refusal is None else refusal.encode(), ms)

    def dump(self, folder, text):
        lib.at_foreign_dump(self.run, folder.encode(), text.encode())

    def verdict(self):
        return json.loads(lib.at_foreign_verdict(self.run))

    def close(self):
        lib.at_foreign_close(self.run)


lib = _load()
