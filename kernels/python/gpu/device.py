"""Tensors of a problem on a GPU (or torch's CPU): copies that keep every stride, gap and padding of the original.

Outputs travel there with their poison, so that a kernel which is handed them leaves what it does not write. The guards
around a tensor stay on the host: a write outside is found by the driver alone.
"""
import contextlib, os, sys

import ml_dtypes
import numpy as np
import torch

from problem import limit

TORCH = {np.dtype(np.float32): torch.float32, np.dtype(np.float16): torch.float16,
         np.dtype(ml_dtypes.bfloat16): torch.bfloat16, np.dtype(np.uint8): torch.uint8,
         np.dtype(np.int32): torch.int32}
RAW = {1: np.uint8, 2: np.int16, 4: np.int32}
DEVICE = os.environ.get("ATTEST_TORCH_DEVICE", "cuda")
LOST = 75  # exit status of a worker whose CUDA context is gone


def arch():
    """The case key `arch` of this device."""
    return "sm%d%d" % torch.cuda.get_device_capability() if DEVICE == "cuda" else "cpu"


def packages(*names):
    """Versions for the hello, by distribution."""
    import importlib.metadata as metadata
    found = {"torch": torch.__version__, "torch.cudnn": str(torch.backends.cudnn.version())}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def layouts(case, **takes):
    """Unsupported unless the case is dense and within `takes`; any stride and slice of a fused buffer goes."""
    limit(case, **{"layout": ("bshd", "sbhd", "bhsd"), "pack": None, "stride": None, "arch": ("any", arch()), **takes})


def put(problem, name):
    """The tensor [b h s d] on the device with the strides of the original; None where the case has none."""
    host = problem.tensor(name)
    if host is None or 0 in host.shape:
        return None if host is None else torch.empty(host.shape, dtype=TORCH[host.dtype], device=DEVICE)
    memory = np.frombuffer(host.base, RAW[host.itemsize])
    copy = torch.from_numpy(memory).clone().to(DEVICE).view(TORCH[host.dtype])
    return copy.as_strided(host.shape, [step // host.itemsize for step in host.strides])


def put_rows(problem, name):
    """The same as [b s h d]."""
    found = put(problem, name)
    return None if found is None else found.transpose(1, 2)


def get(problem, name, tensor):
    """Writes a result [b h s d] of the library into the problem's output."""
    host = problem.tensor(name)
    if TORCH[host.dtype] != tensor.dtype or tuple(tensor.shape) != host.shape:
        raise TypeError(f"{name} came back as {tensor.dtype} {list(tensor.shape)}, not {host.dtype} {list(host.shape)}")
    host.view(RAW[host.itemsize])[...] = tensor.detach().cpu().view(
        {1: torch.uint8, 2: torch.int16, 4: torch.int32}[host.itemsize]).numpy()


def get_rows(problem, name, tensor):
    get(problem, name, tensor.transpose(1, 2))


def gradients(problem, results, inputs):
    """Backpropagates do through results (o as [b s h d] or [b h s d], like inputs) into dq dk dv and dbias."""
    wanted = [name for name in inputs if problem.tensor("d" + name) is not None]
    return dict(zip(wanted, torch.autograd.grad(results[0], [inputs[name] for name in wanted], results[1])))


@contextlib.contextmanager
def contained():
    """Work that is waited for. An error that takes the CUDA context with it ends the worker, so that the next case gets
    a new one; any other is the library's refusal."""
    try:
        yield
        if DEVICE == "cuda":
            torch.cuda.synchronize()
    except Exception as error:
        if DEVICE == "cuda":
            try:
                torch.cuda.synchronize()
                torch.zeros(1, device=DEVICE).item()
            except Exception:
                print(f"the CUDA context is lost: {error}", file=sys.stderr, flush=True)
                os._exit(LOST)
        raise
