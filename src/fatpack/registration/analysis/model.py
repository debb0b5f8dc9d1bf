"""Evidence of registration and launches in one host file, as records."""

from __future__ import annotations

from fatpack.record import Record
from fatpack.registration import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.binary.memory import Constructor, HostMemory
    from fatpack.registration.analysis.descriptors import DescriptorRecord
    from fatpack.registration.analysis.entries import OffloadEntry, OffloadEntryTable


# Functions of the runtimes that register or launch, and the positions of their arguments.
#
# CUDA: ``crt/host_runtime.h`` and ``cuda_runtime_api.h`` of 13.0; HIP: clang/lib/CodeGen/CGCUDANV.cpp; OpenMP: LLVM's
# ``openmp/libompdevice`` interface as OMPIRBuilder.cpp calls it (LLVM 22.1). Arguments are counted from 0.

MODELS = ("cuda", "hip")

#: model → prefixes of the names of its functions
NAME_PREFIXES = {"cuda": ("__cuda", "cuda"), "hip": ("__hip", "hip")}
_OTHERS = {"__tgt_": "openmp", "__sycl_": "sycl"}

#: takes a wrapper, a descriptor, or a container: argument 0
REGISTER_BINARY = {
    "__cudaRegisterFatBinary": "cuda",
    "__hipRegisterFatBinary": "hip",
    "__tgt_register_lib": "openmp",
    "__sycl_register_lib": "sycl",
}
#: models whose images a descriptor counts, or whose offload binaries are registered whole
DESCRIBED = ("openmp", "sycl")
#: takes a handle, argument 1, and the device's name for it, argument 3
REGISTER_FUNCTION = {"__cudaRegisterFunction": "cuda", "__hipRegisterFunction": "hip"}
#: the same for variables
REGISTER_VARIABLE = {
    f"__{model}Register{what}": model
    for model in MODELS
    for what in ("Var", "ManagedVar", "Surface", "Texture", "HostVar")
}
#: takes a callback that registers kernels and a wrapper, and is defined by nvcc's device link
LINKED_BINARY = "__cudaRegisterLinkedBinary_"

#: launching function → the position of the handle among its arguments
LAUNCH = {
    "cudaLaunch": 0,
    "cudaLaunchKernel": 0,
    "cudaLaunchKernel_ptsz": 0,
    "cudaLaunchCooperativeKernel": 0,
    "cudaLaunchCooperativeKernel_ptsz": 0,
    "cudaLaunchKernelExC": 1,
    "cudaLaunchKernelExC_ptsz": 1,
    "__cudaGetKernel": 1,
    "hipLaunchKernel": 0,
    "hipLaunchKernel_spt": 0,
    "hipLaunchCooperativeKernel": 0,
    "__tgt_target_kernel": 4,
}
#: launching functions whose first argument is the address of a stub
LAUNCH_ADDRESS = frozenset(
    name for name, number in LAUNCH.items() if not number and name.startswith("cudaLaunchKernel")
)
#: called only by stubs of kernels: a file that calls it defines kernels
POP = {"__cudaPopCallConfiguration": "cuda", "__hipPopCallConfiguration": "hip"}
PUSH = {"__cudaPushCallConfiguration": "cuda", "__hipPushCallConfiguration": "hip"}

TARGET_KERNEL = "__tgt_target_kernel"
REGISTER_OPENMP = "__tgt_register_lib"
REGISTER_SYCL = "__sycl_register_lib"

#: defined by compilers: a function that launches one kernel, and a bundle that the link makes
STUB = "__device_stub__"
HIP_IMAGE = "__hip_fatbin_"

FUNCTION_NAMES = frozenset(
    {
        *REGISTER_BINARY,
        *REGISTER_FUNCTION,
        *REGISTER_VARIABLE,
        *LAUNCH,
        *POP,
        *PUSH,
        TARGET_KERNEL,
        REGISTER_OPENMP,
        REGISTER_SYCL,
    }
)
"""Every function whose whole name is known."""

#: substrings of the names of these functions: a table of strings without any of them has none of the functions
NAME_HINTS = (
    b"CallConfiguration",
    b"RegisterFatBinary",
    b"__cudaRegisterFunction",
    b"__hipRegisterFunction",
    b"LaunchKernel",
    b"__cudaGetKernel",
    b"__tgt_",
    b"__sycl_register",
    b"sycl.descriptor",
    b"__device_stub__",
    b"__hip_fatbin_",
)


def function_model(name: str) -> str:
    """Return the model of a runtime function by name, "" for any other function."""
    found = next((model for model, prefixes in NAME_PREFIXES.items() if name.startswith(prefixes)), "")
    return found or next((model for prefix, model in _OTHERS.items() if name.startswith(prefix)), "")


def is_runtime_function(name: str) -> bool:
    """Return whether a function of this name registers or launches kernels."""
    return name in FUNCTION_NAMES or name.startswith(LINKED_BINARY)


class RegisterCall(Record):
    """A call that registers a kernel or a variable: its model, address, function, and constants.

    ``name`` is the device's name for it, "" if unknown; ``handle`` the address that launches pass, None if unknown.
    """

    model: str
    at: int
    caller: int
    name: str
    handle: int | None
    is_kernel: bool

    @property
    def is_read(self) -> bool:
        """True if a constant of the call is known; false for the linker wrapper's loop over entries."""
        return bool(self.name) or self.handle is not None


class LaunchCall(Record):
    """A call that launches a kernel of this file: its address, function, and handle."""

    model: str
    at: int
    caller: int
    handle: int


class WrapperRecord(Record):
    """A record that points to a container: its model and address, and the ``target`` address, 0 for null.

    ``symbol`` is the name of a target in another file.
    """

    model: str
    at: int
    position: int
    version: int
    target: int
    symbol: str


class BinaryCall(Record):
    """A call that registers a container: its model, address, function, and wrapper (None: unknown)."""

    model: str
    at: int
    caller: int
    wrapper: int | None


class RegistrationEvidence(Record):
    """The evidence in a file. ``memory`` is the file whose addresses are used.

    ``stubs``: functions by address and name. ``called``: the number of calls of each runtime function.
    ``reached``: the functions known to run before main (None: unknown).
    ``unread``: calls whose constants could not be read. ``unfollowed``: functions that were not followed to their
    launches and registrations, because a limit was reached or capstone is not installed.
    ``links``: names of ``__cudaRegisterLinkedBinary_…`` that the file defines or calls.
    ``descriptors``: descriptors for the runtimes of OpenMP and SYCL.
    ``is_by_shape``: names of functions are inferred from the shape of calls alone.
    ``walked``: addresses of the tables of entries in the loops with ``unread`` calls, None if unknown.
    ``nulls``: addresses of calls that launch the kernel at address 0, as nvcc compiles a template without device code.
    ``skipped``: calls that register kernels in loops over tables without entries, which are never executed.
    ``offload_binaries``: addresses of loaded offload binaries for SYCL, which LLVM 23 registers without a descriptor.
    ``mentioned``: addresses of descriptors and offload binaries that code refers to which constructors reach, None if
    unknown.
    """

    memory: HostMemory
    is_linked: bool
    stubs: Mapping[int, str]
    called: Mapping[str, int]
    binaries: tuple[BinaryCall, ...]
    registered: tuple[RegisterCall, ...]
    launches: tuple[LaunchCall, ...]
    wrappers: tuple[WrapperRecord, ...]
    tables: tuple[OffloadEntryTable, ...]
    constructors: tuple[Constructor, ...]
    reached: frozenset[int] | None
    links: tuple[str, ...]
    unread: int
    unfollowed: int = 0
    descriptors: tuple[DescriptorRecord, ...] = ()
    is_by_shape: bool = False
    walked: frozenset[int] | None = None
    nulls: tuple[int, ...] = ()
    skipped: int = 0
    offload_binaries: tuple[int, ...] = ()
    mentioned: frozenset[int] | None = None

    @property
    def entries(self) -> list[OffloadEntry]:
        """All offload entries."""
        return [entry for table in self.tables for entry in table.entries]

    @property
    def kernels(self) -> dict[str, str]:
        """The known names of registered kernels → their model."""
        found = {each.name: each.model for each in self.registered if each.is_kernel and each.name}
        found.update({entry.name: entry.kind for entry in self.entries if entry.is_kernel})
        return found

    def models(self) -> list[str]:
        """Return the models, of CUDA and HIP, with a launch or a registration in this file."""

        found = {function_model(name) for name in self.called}
        found.update(each.model for each in self.wrappers)
        found.update(entry.kind for entry in self.entries)
        return [model for model in MODELS if model in found]


# Records that point to containers, by address: arguments of the registering calls. They are found here and checked in
# :mod:`fatpack.registration.records`.

#: names of sections, as compilers write them and as PE images truncate them → model
_SECTIONS = {**dict.fromkeys(records.CUDA_NAMES, "cuda"), **dict.fromkeys(records.HIP_NAMES, "hip")}
_MAGICS = {records.CUDA_MAGIC: "cuda", records.HIP_MAGIC: "hip"}

#: LIMIT: records that are read, as in :mod:`fatpack.registration.records`
_MOST = 1 << 16


def section_model(section: str) -> str:
    """Return the model of the records in a section, by its name; "" if it has none."""
    return _SECTIONS.get(section.partition("$")[0], "")


def count_wrappers(content: bytes, word: int) -> int:
    """Return the number of records in a section that point to containers in the same file."""
    step = 8 + 2 * word
    magics = (int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content) - step + 1, step))
    return sum(magic in _MAGICS for magic in magics)


def is_record(file: HostMemory, address: int) -> bool:
    """Return whether a record is at an address, in a section of any name."""
    return int.from_bytes(file.bytes_at(address, 4), "little") in _MAGICS


def find_wrappers(file: HostMemory) -> tuple[WrapperRecord, ...]:
    """Return the records with a magic in all sections for records."""
    found: list[WrapperRecord] = []
    step = 8 + 2 * file.word
    for section in file.sections:
        if not section_model(section.name):
            continue
        content, pointers = file.content(section), file.pointers(section)
        for at in range(0, min(len(content) - step + 1, _MOST * step), step):
            model = _MAGICS.get(int.from_bytes(content[at : at + 4], "little"))
            if model is not None:
                place = section.address + at + 8
                stored = int.from_bytes(content[at + 8 : at + 8 + file.word], "little")
                target = pointers.get(place, stored)
                version = int.from_bytes(content[at + 4 : at + 8], "little")
                position = section.data.start - file.view.start + at
                found.append(WrapperRecord(model, place - 8, position, version, target, file.undefined.get(target, "")))
    return tuple(found)
