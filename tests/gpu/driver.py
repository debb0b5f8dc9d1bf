"""As much of the CUDA driver as it takes to load a fat binary and run a kernel of it.

CUDA driver API 13.0, ``cuda.h``; of the functions with several versions the second one, since CUDA 3.2.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

#: what a kernel was compiled for, as 10 * major + minor (CUfunction_attribute)
PTX_VERSION, BINARY_VERSION = 5, 6

#: CUdevice_attribute: compute capability
_MAJOR, _MINOR = 75, 76

_Handle = ctypes.c_void_p


class DriverError(Exception):
    """A function of the driver did not return CUDA_SUCCESS."""


class Driver:
    """The first device with its primary context. Raises OSError without a driver, DriverError without a device."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self("cuInit", ctypes.c_uint(0))
        version, count, device = (ctypes.c_int() for _ in range(3))
        self("cuDriverGetVersion", ctypes.byref(version))
        self("cuDeviceGetCount", ctypes.byref(count))
        if not count.value:
            raise DriverError("no device")
        self("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        major, minor = (self._attribute(device, number) for number in (_MAJOR, _MINOR))
        #: 1000 * major + 10 * minor of the CUDA that the driver supports, and 10 * major + minor of the device
        self.version, self.sm = version.value, 10 * major + minor
        name = ctypes.create_string_buffer(256)
        self("cuDeviceGetName", name, ctypes.c_int(len(name)), device)
        self.name = name.value.decode()
        self._context, self._device = _Handle(), device
        self("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self("cuCtxSetCurrent", self._context)

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function of the driver; every argument has its C type. Raises DriverError if it fails."""
        code = getattr(self._cuda, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(ctypes.c_int(code), ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'unknown error').decode()} ({code})")

    def _attribute(self, device: ctypes.c_int, number: int) -> int:
        value = ctypes.c_int()
        self("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), device)
        return value.value

    def close(self) -> None:
        """Give the context back."""
        self("cuDevicePrimaryCtxRelease_v2", self._device)

    def run(self, image: bytes, kernel: str, numbers: Sequence[int], *extra: int, as_library: bool) -> Outcome:
        """Load an image, run a kernel ``(int *numbers, int extra…)`` in one block with a thread for each number.

        ``as_library`` loads it with cuLibraryLoadData instead of cuModuleLoadData.
        """
        held = ctypes.create_string_buffer(image, len(image))
        loaded, function = _Handle(), _Handle()
        if as_library:
            nothing, none = _Handle(), ctypes.c_uint(0)
            options = (nothing, nothing, none)
            self("cuLibraryLoadData", ctypes.byref(loaded), held, *options, *options)
            handle = _Handle()
            self("cuLibraryGetKernel", ctypes.byref(handle), loaded, ctypes.c_char_p(kernel.encode()))
            self("cuKernelGetFunction", ctypes.byref(function), handle)
        else:
            self("cuModuleLoadData", ctypes.byref(loaded), held)
            self("cuModuleGetFunction", ctypes.byref(function), loaded, ctypes.c_char_p(kernel.encode()))
        try:
            return Outcome(
                self._launched(function, numbers, extra),
                self._function_attribute(function, PTX_VERSION),
                self._function_attribute(function, BINARY_VERSION),
            )
        finally:
            self("cuLibraryUnload" if as_library else "cuModuleUnload", loaded)

    def _function_attribute(self, function: ctypes.c_void_p, number: int) -> int:
        value = ctypes.c_int()
        self("cuFuncGetAttribute", ctypes.byref(value), ctypes.c_int(number), function)
        return value.value

    def _launched(self, function: ctypes.c_void_p, numbers: Sequence[int], extra: Sequence[int]) -> list[int]:
        host = (ctypes.c_int * len(numbers))(*numbers)
        size, memory = ctypes.c_size_t(ctypes.sizeof(host)), ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(memory), size)
        try:
            self("cuMemcpyHtoD_v2", memory, host, size)
            values = [memory, *map(ctypes.c_int, extra)]
            pointers = [ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in values]
            parameters = (ctypes.c_void_p * len(pointers))(*pointers)
            one, threads, none = ctypes.c_uint(1), ctypes.c_uint(len(numbers)), ctypes.c_uint(0)
            shape = (one, one, one, threads, one, one)
            self("cuLaunchKernel", function, *shape, none, _Handle(), parameters, _Handle())
            self("cuCtxSynchronize")
            self("cuMemcpyDtoH_v2", host, memory, size)
        finally:
            self("cuMemFree_v2", memory)
        return list(host)


class Outcome:
    """The numbers that a kernel made, and the versions for which the image that the driver chose was compiled."""

    def __init__(self, numbers: list[int], ptx_version: int, binary_version: int) -> None:
        self.numbers = numbers
        self.ptx_version = ptx_version
        self.binary_version = binary_version
