"""Which functions register images: put together from the listings of a processor.

===============  ====================================================================================================
``register``     what runs when the program starts: the runtime gets the images, and ``unregister`` for its end
``unregister``   what gives the images back
``globals``      CUDA and HIP: a loop over the offload entries between ``start`` and ``stop``, which registers kernels
                 and variables by name
===============  ====================================================================================================

The calls and their arguments are those of clang-linker-wrapper (``llvm/lib/Frontend/Offloading/OffloadWrapper.cpp``),
read from the LLVM IR that LLVM 22 and 23 print, and compared with what that does when it runs.
"""

from __future__ import annotations

from fatpack.commands.wrap.code.template import MachineCode, assemble
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    class ProcessorListings(Protocol):
        """The module of a processor; what each listing does is told there."""

        BEGIN: str
        END: str
        CALL_DESCRIPTOR: str
        CALL_BINARY: str
        AT_EXIT: str
        REGISTER_FATBIN: str
        FATBIN_END: str
        REGISTER_FATBIN_END: str
        UNREGISTER_FATBIN: str
        GLOBALS: str
        OF_KIND: str
        ENTRY: str
        MANAGED: str
        SURFACES: str
        GLOBALS_END: str


#: processor and way of calling → module of its listings, alignment of functions, what stands between them
_PROCESSORS = {
    "x86_64": ("x86_64", 16, b"\x90"),
    "x86_64-windows": ("x86_64_windows", 16, b"\x90"),
    "aarch64": ("aarch64", 4, b"\0"),
}


class RegistrationCode(Record):
    """What registers images: its listing, and the numbers that it names."""

    listing: str
    values: Mapping[str, int]

    def code(self, processor: str) -> MachineCode:
        """Return the machine code, for the processor whose listing it is."""
        _, align, padding = _PROCESSORS[processor]
        return assemble(self.listing, self.values, align=align, padding=padding)


def _listings(processor: str) -> ProcessorListings:
    found: ProcessorListings = __import__(f"fatpack.commands.wrap.code.{_PROCESSORS[processor][0]}", fromlist=["BEGIN"])
    return found


def fatbin_program(processor: str, runtime: str, fields: Mapping[str, int]) -> RegistrationCode:
    """Return what registers the fat binary of CUDA or HIP: ``runtime`` is cuda or hip.

    ``fields`` say where the fields of an entry are, and its size (``pitch``). With ``kind``, entries of other kinds are
    passed over, and with ``auxiliary`` managed variables are registered. Surfaces and textures are with HIP alone, as
    LLVM does it.
    """
    own = _listings(processor)
    register = own.REGISTER_FATBIN + (own.FATBIN_END if runtime == "cuda" else "") + own.AT_EXIT
    of_kind = own.OF_KIND if "kind" in fields else ""
    managed = own.MANAGED if "auxiliary" in fields else ""
    surfaces = own.SURFACES if runtime == "hip" else ""
    listing = (
        f"register:\n{register}{own.REGISTER_FATBIN_END}"
        f"unregister:\n{own.BEGIN}{own.UNREGISTER_FATBIN}{own.END}"
        f"globals:\n{own.GLOBALS}{of_kind}{own.ENTRY}"
        f"managed:\n{managed}surface:\n{surfaces}{own.GLOBALS_END}"
    )
    return RegistrationCode(listing.format(runtime=runtime, **fields), fields)


def descriptor_program(processor: str, prefix: str, *, at_exit: bool) -> RegistrationCode:
    """Return what hands a descriptor to ``{prefix}_register_lib``, and back to ``{prefix}_unregister_lib``.

    ``at_exit`` registers the second function with ``atexit``; without, the object has to name it as a destructor.
    """
    own = _listings(processor)
    return _pair(own, own.CALL_DESCRIPTOR, prefix, own.AT_EXIT if at_exit else "", {})


def binary_program(processor: str, prefix: str, size: int) -> RegistrationCode:
    """Return what hands the address and the size of an offload binary to such functions."""
    own = _listings(processor)
    return _pair(own, own.CALL_BINARY, prefix, "", {"size": size})


def _pair(own: ProcessorListings, call: str, prefix: str, at_exit: str, values: Mapping[str, int]) -> RegistrationCode:
    register, unregister = (call.format(function=f"{prefix}_{verb}_lib", **values) for verb in _VERBS)
    listing = f"register:\n{own.BEGIN}{register}{at_exit}{own.END}unregister:\n{own.BEGIN}{unregister}{own.END}"
    return RegistrationCode(listing, values)


_VERBS = ("register", "unregister")
