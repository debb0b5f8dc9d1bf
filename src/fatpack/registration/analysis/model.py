"""What one host file shows of launching and registering: all of it, as records."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.binary.memory import Constructor, HostMemory
    from fatpack.registration.analysis.descriptors import DescriptorRecord
    from fatpack.registration.analysis.entries import OffloadEntry, OffloadEntryTable


class RegisterCall(Record):
    """A call that registers a kernel or a variable: its model, where it is, in which function, and its constants.

    ``name`` is the device's name for it, "" if that is not known; ``handle`` the address that launches pass, None if
    that is not known.
    """

    model: str
    at: int
    caller: int
    name: str
    handle: int | None
    is_kernel: bool

    @property
    def is_read(self) -> bool:
        """Whether anything is known of what is registered: of the linker wrapper's loop over entries nothing is."""
        return bool(self.name) or self.handle is not None


class LaunchCall(Record):
    """A call that launches a kernel of this file: where, in which function, and the handle."""

    model: str
    at: int
    caller: int
    handle: int


class WrapperRecord(Record):
    """A record that leads to a container: its model and address, and the ``target`` address, 0 for null.

    ``symbol`` is the name of a target that another file defines.
    """

    model: str
    at: int
    position: int
    version: int
    target: int
    symbol: str


class BinaryCall(Record):
    """A call that registers a container: its model, where, in which function, and the wrapper (None: not known)."""

    model: str
    at: int
    caller: int
    wrapper: int | None


class RegistrationEvidence(Record):
    """What a file shows. ``memory`` is the file that all addresses are of.

    ``stubs`` are functions by address and name; ``called`` says how often each function of a runtime is called, and
    ``reached`` which functions run before main as far as that is known (None: not at all). ``unread`` are calls whose
    constants could not be read, ``unfollowed`` functions that were not followed to what they launch or register: the
    limits on that were reached, or capstone is not there. ``links`` are the names of ``__cudaRegisterLinkedBinary_…``
    that the file defines or calls. ``descriptors`` are what the runtimes of OpenMP and SYCL are given. ``is_by_shape``
    says that names of functions come from the shape of calls alone. ``walked`` are the addresses of the tables of
    entries that the functions with ``unread`` calls go through, None if that is not known. ``nulls`` are the addresses
    of calls that launch the kernel at address 0: what nvcc makes of a template that device code has not.
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

    @property
    def entries(self) -> list[OffloadEntry]:
        """All offload entries."""
        return [entry for table in self.tables for entry in table.entries]

    @property
    def kernels(self) -> dict[str, str]:
        """The names that are registered as kernels → their model, as far as they are known."""
        found = {each.name: each.model for each in self.registered if each.is_kernel and each.name}
        found.update({entry.name: entry.kind for entry in self.entries if entry.is_kernel})
        return found

    def models(self) -> list[str]:
        """Return the models of CUDA and HIP that this file launches or registers something of."""
        from fatpack.registration.analysis.functions import MODELS, function_model

        found = {function_model(name) for name in self.called}
        found.update(each.model for each in self.wrappers)
        found.update(entry.kind for entry in self.entries)
        return [model for model in MODELS if model in found]
