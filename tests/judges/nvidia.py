"""NVIDIA's own readers and writers of fat binaries, which need no driver: nvJitLink and nvFatbin, by ctypes.

Sources: nvJitLink.h and nvFatbin.h of CUDA 13. Handles are freed also after an error.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import reference

#: ``nvJitLinkInputType``
CUBIN, PTX, FATBIN, OBJECT, LIBRARY = 1, 2, 4, 5, 6


@dataclass(frozen=True)
class Linked:
    """The result of a link: the linked cubin, or the words of the error."""

    cubin: bytes
    error: str = ""


class JitLink:
    """nvJitLink, which chooses an entry of each fat binary for ``-arch`` and links it."""

    def __init__(self) -> None:
        """Load the library; skip or fail the running test when it is missing."""
        path = reference.nvidia_library("libnvJitLink.so")
        self._library = ctypes.CDLL(path)
        # The names of functions end in the version of the header that a program was compiled with; 13.0 is the first.
        self._suffix = "_13_0"

    def _call(self, name: str, *arguments: object) -> int:
        return int(getattr(self._library, f"__nvJitLink{name}{self._suffix}")(*arguments))

    def link(self, data: bytes, *options: str, kind: int = FATBIN) -> Linked:
        """Link one input with ``options``, as ``-arch=sm_90``."""
        handle = ctypes.c_void_p()
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        code = self._call("Create", ctypes.byref(handle), len(options), words)
        if code:
            return Linked(b"", f"nvJitLinkCreate: {code}")
        try:
            code = self._call("AddData", handle, kind, data, ctypes.c_size_t(len(data)), b"input")
            code = code or self._call("Complete", handle)
            if code:
                return Linked(b"", f"{code}: {self._text(handle, 'ErrorLog')}")
            return Linked(self._bytes(handle, "LinkedCubin"))
        finally:
            self._call("Destroy", ctypes.byref(handle))

    def _bytes(self, handle: ctypes.c_void_p, name: str) -> bytes:
        size = ctypes.c_size_t()
        assert self._call(f"Get{name}Size", handle, ctypes.byref(size)) == 0
        buffer = ctypes.create_string_buffer(size.value + 1)
        assert self._call(f"Get{name}", handle, buffer) == 0
        return buffer.raw[: size.value]

    def _text(self, handle: ctypes.c_void_p, name: str) -> str:
        return self._bytes(handle, name).rstrip(b"\0").decode(errors="replace")


@dataclass(frozen=True)
class Entry:
    """An image to be stored: ``form`` cubin or ptx, ``arch`` as 90a, and its bytes, of PTX without the final NUL."""

    form: str
    arch: str
    data: bytes

    @property
    def label(self) -> str:
        """Return the architecture as pack takes it: sm_90a, compute_90a."""
        return f"{'compute' if self.form == 'ptx' else 'sm'}_{self.arch}"


def nvfatbin(entries: Sequence[Entry], *options: str) -> bytes:
    """Return the fat binary that nvFatbin makes of the entries."""
    library = ctypes.CDLL(reference.nvidia_library("libnvfatbin.so"))
    library.nvFatbinGetErrorString.restype = ctypes.c_char_p

    def call(name: str, *arguments: object) -> None:
        code = getattr(library, f"nvFatbin{name}")(*arguments)
        assert code == 0, (name, library.nvFatbinGetErrorString(code))

    handle = ctypes.c_void_p()
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    call("Create", ctypes.byref(handle), words, ctypes.c_size_t(len(options)))
    try:
        for entry in entries:
            arch, name = entry.arch.encode(), b""
            if entry.form == "cubin":
                call("AddCubin", handle, entry.data, ctypes.c_size_t(len(entry.data)), arch, name)
            else:
                # The size of PTX counts the NUL (nvFatbin.h), which ctypes adds.
                call("AddPTX", handle, entry.data, ctypes.c_size_t(len(entry.data) + 1), arch, name, b"")
        size = ctypes.c_size_t()
        call("Size", handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call("Get", handle, buffer)
        return buffer.raw
    finally:
        call("Destroy", ctypes.byref(handle))


def compile_entry(folder: Path, form: str, arch: str) -> Entry:
    """Return an image with one kernel whose name says what it is: ``only_sm_90a``, ``only_compute_90a``.

    Cubins are relocatable, as the inputs of a link are.
    """
    label = f"{'compute' if form == 'ptx' else 'sm'}_{arch}"
    number = int(re.sub(r"\D", "", arch))
    # Architectures of CUDA 13 want its PTX, those of Blackwell that of 12.9, sm_90a that of 12.0, others no version.
    version = "9.0" if number in (88, 110) else "8.8" if number >= 100 else "8.0"
    text = (
        f".version {version}\n.target sm_{arch}\n.address_size 64\n\n"
        f".visible .entry only_{label}(\n.param .u64 only_{label}_param_0\n)\n{{\nret;\n}}\n"
    )
    if form == "ptx":
        return Entry(form, arch, text.encode())
    source, cubin = folder / f"{arch}.ptx", folder / f"{arch}.cubin"
    source.write_text(text)
    reference.run("ptxas", "-c", f"-arch=sm_{arch}", source, "-o", cubin)
    return Entry(form, arch, cubin.read_bytes())


def kernels_in(linked: Linked) -> list[str]:
    """Return the labels of the images that a link took, by the names of their kernels."""
    found = re.findall(rb"\bonly_((?:sm|compute)_\d+[af]?)\b", linked.cubin)
    return sorted({name.decode() for name in found})
