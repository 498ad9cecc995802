"""Imports transformer_engine.pytorch of an unpacked wheel without its compiled extension.

The extension module `transformer_engine_torch` is replaced by one whose enumerations are read from the wheel's own C
headers and whose functions do nothing; the selector asks the extension for numbers only, so its rules run unchanged.
"""
import enum
import importlib
import importlib.machinery
import os
import pathlib
import re
import sys
import types

# members of DType that the extension exports; the header has more
DTYPES = ("kByte", "kInt32", "kFloat32", "kFloat16", "kBFloat16", "kFloat8E4M3", "kFloat8E5M2", "kFloat4E2M1")


def header_enums(folder):
    """Enumeration name -> {member: value} over all C headers of a folder."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.h")):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.S)
        for name, body in re.findall(r"\benum\s+(?:class\s+)?(\w+)\s*(?::\s*\w+\s*)?\{(.*?)\}", text, flags=re.S):
            value, members = 0, {}
            for item in filter(None, (i.strip() for i in body.split(","))):
                key, _, number = (part.strip() for part in item.partition("="))
                if number:
                    value = members[number] if number in members else int(number, 0)
                members[key] = value
                value += 1
            found.setdefault(name, {}).update(members)
    return found


class _Names(type):
    """A class whose unknown attributes are its numbered instances: stands for enumerations that no header has."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = int.__new__(cls, sum(isinstance(v, cls) for v in vars(cls).values()))
        setattr(cls, name, value)
        return value


class Extension(types.ModuleType):
    """transformer_engine_torch with real enumerations and functions that return None."""

    def __init__(self, enums):
        super().__init__("transformer_engine_torch")
        self.__path__ = []
        self.__dict__["_enums"] = enums

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._enums:
            value = enum.IntEnum(name, self._enums[name])
        elif name[0].isupper():
            value = _Names(name, (int,), {"__new__": lambda cls, *args, **kwargs: int.__new__(cls)})
        else:
            def value(*args, **kwargs):
                return None
        setattr(self, name, value)
        return value


def load(root, version):
    """Imports the package under `root` and returns the stand-in extension; once a process."""
    os.environ["NVTE_PROJECT_BUILDING"] = "1"  # transformer_engine.common then loads no shared library
    enums = header_enums(root / "transformer_engine/common/include/transformer_engine")
    enums["DType"] = {k: v for k, v in enums["DType"].items() if k in DTYPES}
    extension = Extension(enums)
    extension.get_cudnn_version = lambda: 0
    sys.modules["transformer_engine_torch"] = extension
    sys.path.insert(0, str(root))
    package = types.ModuleType("transformer_engine")
    package.__version__ = version
    package.__file__ = str(root / "transformer_engine/__init__.py")
    package.__path__ = [str(root / "transformer_engine")]
    package.__spec__ = importlib.machinery.ModuleSpec("transformer_engine", None, origin=package.__file__,
                                                      is_package=True)
    package.__spec__.submodule_search_locations = package.__path__
    sys.modules["transformer_engine"] = package
    package.common = importlib.import_module("transformer_engine.common")
    package.common.load_framework_extension = lambda *args, **kwargs: None
    package.pytorch = importlib.import_module("transformer_engine.pytorch")
    return extension
