"""torch.ops.flash_attn_3 of the build inside xformers, found and loaded; ImportError says what is missing."""
import ctypes, glob, importlib.metadata, importlib.util, os, pathlib

import torch


def _runtime():
    """CUDA 12's runtime, which the build was linked with: its symbols must be global."""
    try:
        return ctypes.CDLL("libcudart.so.12", ctypes.RTLD_GLOBAL)
    except OSError:
        spec = importlib.util.find_spec("nvidia")
        for folder in spec.submodule_search_locations if spec else []:
            for path in glob.glob(f"{folder}/cuda_runtime/lib/libcudart.so.12"):
                return ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    raise ModuleNotFoundError("libcudart.so.12 is not there", name="nvidia-cuda-runtime-cu12")


def load():
    """The operators and the version of the wheel."""
    spec = importlib.util.find_spec("xformers")
    if spec is None:
        raise ModuleNotFoundError("no FlashAttention 3 here", name="xformers")
    path = pathlib.Path(spec.submodule_search_locations[0]) / "flash_attn_3" / "_C.so"
    if not path.exists():
        raise ModuleNotFoundError("this xformers has no flash_attn_3", name="xformers==0.0.34")
    os.environ.setdefault("CUDNN_FRONTEND_CUDART_LIB_NAME", "libcudart.so.13")  # else it takes 12's and refuses all
    _runtime()
    torch.ops.load_library(str(path))
    return torch.ops.flash_attn_3, importlib.metadata.version("xformers")
