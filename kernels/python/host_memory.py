"""Tensors of a problem in device memory of attest's own: guarded by libattest, outside every framework's cache.

A tensor is handed to frameworks without a copy through the CUDA array interface. After a launch `settle` brings the
outputs home, and what was written outside a buffer, or into an input, is done to the host's buffer too: there the judge
finds it, at the same place."""
import ctypes as C

import numpy as np

from problem import lib

ENUM = {"float32": 0, "float16": 1, "bfloat16": 2, "float8_e4m3fn": 3, "float8_e5m2": 4, "uint8": 6, "int32": 7}
WORD = {1: "|u1", 2: "<i2", 4: "<i4"}  # typestr of the raw elements; the caller views them as their own type

_device, _long, _text = C.c_void_p, C.c_int64, C.c_char_p
for _name, _result, _arguments in (
        ("at_device_open", C.c_int, [C.POINTER(_device), _text, C.c_int, C.c_void_p]),
        ("at_device_close", None, [_device]),
        ("at_device_has_guard_pages", C.c_int, [_device]),
        ("at_device_take", C.c_int, [C.POINTER(C.c_uint64), _device, C.c_size_t, C.c_uint, C.c_size_t, C.c_void_p]),
        ("at_device_put", C.c_int, [_device, C.c_uint64, C.c_void_p, C.c_size_t, C.c_void_p]),
        ("at_device_get", C.c_int, [_device, C.c_void_p, C.c_uint64, C.c_size_t, C.c_void_p]),
        ("at_device_check", C.c_int, [_device, C.c_uint64, C.POINTER(C.c_int), C.POINTER(_long), C.c_void_p]),
        ("at_device_release", None, [_device]),
        ("at_dtype_guard", C.c_uint32, [C.c_int])):
    getattr(lib, _name).restype, getattr(lib, _name).argtypes = _result, _arguments


class DeviceError(RuntimeError):
    """The driver's sentence."""


def _check(call, *arguments):
    error = C.create_string_buffer(512)
    if call(*arguments, error) != 0:
        raise DeviceError(error.value.decode())


class Buffer:
    """One tensor on the device, [b h s d] with the strides of the host's; raw elements of 1, 2 or 4 bytes."""

    def __init__(self, address, host, size, is_input):
        self.address, self.host, self.size, self.is_input = address, host, size, is_input
        self.__cuda_array_interface__ = {"shape": host.shape, "strides": host.strides, "typestr": WORD[host.itemsize],
                                         "data": (address, False), "version": 3}


class Memory:
    def __init__(self, library=None, ordinal=0):
        self.device, self.buffers = _device(), []
        _check(lib.at_device_open, C.byref(self.device), library and library.encode(), ordinal)

    @property
    def has_guard_pages(self):
        return bool(lib.at_device_has_guard_pages(self.device))

    def put(self, host, is_input):
        """A tensor of the problem (problem.tensor) with its gaps, and an output with its poison."""
        size = host.itemsize + sum((n - 1) * step for n, step in zip(host.shape, host.strides)) if host.size else 0
        address = C.c_uint64()
        _check(lib.at_device_take, C.byref(address), self.device, size, lib.at_dtype_guard(ENUM[host.dtype.name]),
               host.itemsize)
        _check(lib.at_device_put, self.device, address, host.ctypes.data, size)
        self.buffers.append(Buffer(address.value, host, size, is_input))
        return self.buffers[-1]

    def settle(self):
        """After the launch was waited for: outputs to the host, with whatever else was written."""
        for b in self.buffers:
            changed, offset = C.c_int(), _long()
            _check(lib.at_device_check, self.device, b.address, C.byref(changed), C.byref(offset))
            if changed.value:
                _check(lib.at_device_get, self.device, b.host.ctypes.data + offset.value, b.address + offset.value, 1)
            if b.size and not (b.is_input and self.bytes(b) == C.string_at(b.host.ctypes.data, b.size)):
                _check(lib.at_device_get, self.device, b.host.ctypes.data, b.address, b.size)

    def bytes(self, b):
        found = C.create_string_buffer(b.size)
        _check(lib.at_device_get, self.device, found, b.address, b.size)
        return found.raw

    def release(self):
        """Ends the use of every buffer."""
        self.buffers.clear()
        lib.at_device_release(self.device)

    def close(self):
        self.buffers.clear()
        lib.at_device_close(self.device)
        self.device = _device()
