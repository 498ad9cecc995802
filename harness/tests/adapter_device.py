"""The NumPy adapter with its tensors in device memory of attest's own, on the driver that ATTEST_DRIVER names, whose
device memory is host memory; healthy, and at fault in ways that only the guards on the device can see."""
import ctypes, os, pathlib, sys

import numpy as np

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "kernels" / "python")]
import adapter_numpy
from host_memory import Memory

PACKAGE = "numpy"
INPUTS = ("q", "k", "v", "do")


def view(buffer):
    """The device's memory as the kernels of a real device see it."""
    said = buffer.__cuda_array_interface__
    memory = (ctypes.c_char * buffer.size).from_address(said["data"][0])
    return np.ndarray(said["shape"], said["typestr"], memory, 0, said["strides"]).view(np.float32)


class OnDevice:
    """A problem whose tensors are copies on the device."""

    def __init__(self, problem, memory, names):
        self.case, self.scale = problem.case, problem.scale
        self.buffers = {name: memory.put(problem.tensor(name), name in INPUTS) for name in names}

    def tensor(self, name):
        return view(self.buffers[name])


class Attention(adapter_numpy.Attention):
    name, doc = "device", "the NumPy adapter in device memory"
    writes, memory = {}, None  # what a faulty kernel does: a place in "o" or "k" by name of the buffer

    def run(self, problem, names, call):
        self.memory = self.memory or Memory(os.environ["ATTEST_DRIVER"])
        try:
            there = OnDevice(problem, self.memory, names)
            call(there, "numpy")
            for name, place in self.writes.items():
                b = there.buffers[name]
                ctypes.memset(b.address + (b.size if place == "end" else place), 7, 1)
            self.memory.settle()
        finally:
            self.memory.release()

    def forward(self, problem, engine):
        self.run(problem, "qkvo", super().forward)

    def backward(self, problem, engine):
        self.run(problem, (*"qkv", "do", "dq", "dk", "dv"), super().backward)


def faulty(name, writes):
    made = Attention()
    made.name, made.writes = f"device.{name}", writes
    return made


def backends():
    return [Attention(), faulty("past", {"v": "end"}), faulty("before", {"q": -3}), faulty("input", {"k": 2})]
