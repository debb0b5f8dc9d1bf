"""Types of the listing that ``inspect`` makes of a file: JSON, text, sums and comparisons are made from it.

The keys are those of ``fatpack.inspect/1`` (``schemas/inspect.schema.json``), in the order in which JSON has them, and
at the end those of ``fatpack.runtime/1`` (``schemas/runtime.schema.json``). Keys that are not required are absent if
there is nothing to say. Only annotations use this module: no command loads it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, NotRequired, TypeAlias, TypedDict, TypeVar

    from fatpack.commands.check_kpack.text import LookupRecord, MarkerNames
    from fatpack.commands.inspect.text import KernelTable, ListingRows
    from fatpack.formats.described import StoredFacts
    from fatpack.scanner.standalone_images import ImageClaims, SidecarFacts
    from fatpack.text.findings import FindingRecord, UnlistedRecord

    class KernelRecord(TypedDict):
        """Resources of one kernel, as :class:`fatpack.images.kernel.KernelNeeds` has them; None for an unknown one."""

        name: str
        registers: int | None
        sgprs: int | None
        agprs: int | None
        vgpr_spills: int | None
        sgpr_spills: int | None
        shared: int | None
        local: int | None
        has_dynamic_stack: bool | None
        params: int | None
        constants: dict[str, int] | None
        max_threads: int | None
        required_threads: list[int] | None
        min_blocks: int | None
        cluster: list[int] | None
        wavefront: int | None
        barriers: int | None
        size: int | None
        body: str | None

    #: Resources of the kernels of an image; or the sizes of their code by name; or the text of their table.
    KernelFacts: TypeAlias = list[KernelRecord] | dict[str, int | None] | KernelTable

    class KernelNames(TypedDict):
        """The kernels of an image; their resources and the image's producers if they were requested."""

        kernels: list[str]
        kernel_facts: NotRequired[KernelFacts]
        made_by: NotRequired[list[str]]

    class Claims(TypedDict):
        """The target that an image states itself; empty strings if it states none."""

        triple: str
        arch: str

    class MemberNumbers(TypedDict, total=False):
        """The numbers that lead to a member of an archive, outermost archive first; absent for other places."""

        member_numbers: list[int]

    class ImageRecord(KernelNames):
        """One image of a container."""

        index: int
        offload: str
        triple: str
        arch: str
        form: str
        stored_form: str
        offset: int | None
        stored_size: int | None
        size: int
        compression: str | None
        attrs: dict[str, str]
        claims: Claims
        detail: str
        containers: list[ContainerRecord]

    class InflatedFlag(TypedDict, total=False):
        """``is_inflated`` is False if the images were only listed, and otherwise absent."""

        is_inflated: bool

    class ContainerRecord(MemberNumbers, InflatedFlag):
        """One container. ``stored`` has the format's own facts, with names that differ between formats."""

        format: str
        version: int
        host: str
        section: str | None
        section_index: int | None
        member: str | None
        offset: int | None
        size: int
        attrs: dict[str, str]
        stored: StoredFacts
        images: list[ImageRecord]

    class StandaloneImageRecord(ImageClaims, KernelNames):
        """A file that is a device image itself."""

        metadata: NotRequired[SidecarFacts]
        stored: NotRequired[StoredFacts]

    class MemberImageRecord(ImageClaims, KernelNames):
        """A member of an archive that is a device image itself."""

        member: str
        member_numbers: list[int]
        offset: int | None
        size: int

    AnyImage: TypeAlias = ImageRecord | MemberImageRecord | StandaloneImageRecord

    class MarkerPlace(TypedDict):
        """A marker of code in kpack archives: the key of the code object, and the marker's offset."""

        key: str
        offset: int

    class KpackArchiveRecord(TypedDict):
        """A kpack archive that the program finds."""

        path: str
        size: int
        archs: list[str]
        objects: int

    class KpackProblem(TypedDict):
        """A search path that leads to no readable archive."""

        path: str
        problem: str

    class KpackSiblings(TypedDict):
        """The kpack archives beside a program, and the code objects that each device gets from them."""

        archives: list[KpackArchiveRecord]
        devices: list[LookupRecord]
        problems: list[KpackProblem]

    class MarkerRecord(MarkerNames):
        """A program whose device code lies in kpack archives. ``beside`` is None if the file is not on a local disk."""

        count: int
        markers: list[MarkerPlace]
        beside: KpackSiblings | None

    class ManifestFile(TypedDict):
        """An archive that a manifest names."""

        arch: str
        file: str
        size: int | None
        kernel_count: int | None
        offset: int

    class ManifestRecord(TypedDict):
        """A manifest of kpack archives (``.kpm``)."""

        component: str
        prefix: str
        format_version: int | None
        files: list[ManifestFile]

    class RegistrationCountsRecord(MemberNumbers):
        """Numbers of kernels and variables that an object or program registers; None if only its code would tell."""

        member: str | None
        models: list[str]
        kernels: int | None
        variables: int | None
        records: int
        by: str

    class UnsearchedSections(TypedDict):
        """Sections of one name in which no container was searched."""

        section: str
        count: int
        size: int

    class FailureRecord(TypedDict):
        """The reason why a file could not be read."""

        message: str
        exit_code: int

    class LeftOutImages(TypedDict):
        """Images that ``--arch`` leaves out: their number, and their architectures."""

        images: int
        architectures: list[str]

    class OptionalFacts(TypedDict, total=False):
        """Keys that the record of a file has only if there is something to say."""

        kind: str
        package: str
        member_images: list[MemberImageRecord]
        kpack: MarkerRecord
        manifest: ManifestRecord
        registration: list[RegistrationCountsRecord]
        left_out: LeftOutImages
        unlisted_findings: list[UnlistedRecord]
        not_searched: list[UnsearchedSections]
        found_outside: bool
        error: FailureRecord

    Containers = TypeVar("Containers", list[ContainerRecord], ListingRows)

    class ListedFile(OptionalFacts, Generic[Containers]):
        """One file; its containers are records, or the rows that the short text shows."""

        path: str
        size: int | None
        host: str | None
        format: str | None
        image: StandaloneImageRecord | None
        containers: Containers
        findings: list[FindingRecord]

    FileRecord: TypeAlias = ListedFile[list[ContainerRecord]]
    FileListing: TypeAlias = ListedFile[ListingRows]
    AnyFile: TypeAlias = FileRecord | FileListing

    # The records of ``inspect --runtime``: what each object and program of a file registers and launches.

    class RuntimeWrapper(TypedDict):
        """A wrapper, which hands a container to a runtime."""

        model: str
        address: int
        offset: int
        version: int
        target: int
        target_offset: int | None
        symbol: str

    class DescribedImage(TypedDict):
        """An image that a descriptor names."""

        offset: int | None
        data_offset: int | None
        size: int
        target: str

    class RuntimeDescriptor(TypedDict):
        """A descriptor of images for a runtime."""

        model: str
        address: int
        offset: int | None
        images: list[DescribedImage]

    class RuntimeConstructor(TypedDict):
        """A function that runs before main; ``registers`` are the wrappers that it registers, None if unknown."""

        section: str
        priority: int | None
        offset: int | None
        address: int
        function: str
        registers: list[int | None]

    class RegisteredKernel(TypedDict):
        """A kernel that a call registers."""

        model: str
        name: str
        handle: int | None
        function: str

    class RegisteredVariable(TypedDict):
        """A variable that a call registers."""

        model: str
        name: str
        function: str

    class LaunchRecord(TypedDict):
        """A launch of a kernel."""

        model: str
        handle: int
        offset: int | None
        function: str

    class OffloadEntryRecord(TypedDict):
        """An entry of the offload tables."""

        kind: str
        offset: int
        address: int
        name: str
        flags: int
        size: int
        data: int
        aux: int
        layout: int

    class RegisteredCalls(TypedDict, total=False):
        """Kernels and variables that calls register, and launches."""

        kernels: list[RegisteredKernel]
        variables: list[RegisteredVariable]
        launches: list[LaunchRecord]

    class RegistrationFacts(RegisteredCalls, total=False):
        """Facts from the code of an object or program: all keys, or none if its code was not read.

        ``lacking`` are the architectures without a registered kernel, absent if images were not compared. ``likely``
        are names of kernels in the data of a program whose code cannot be read, absent for others.
        """

        linked: bool
        machine: str
        producer: str
        awaited: list[str]
        kernel_count: int
        variable_count: int
        unread: int
        registers_entries: bool
        unfollowed: int
        compared: bool
        lacking: dict[str, list[str]]
        wrappers: list[RuntimeWrapper]
        descriptors: list[RuntimeDescriptor]
        constructors: list[RuntimeConstructor]
        entries: list[OffloadEntryRecord]
        called: dict[str, int]
        likely: list[str]

    class UnitRecord(RegistrationFacts):
        """One object or program, and where the facts about it were read."""

        member: str | None
        host: str
        read: str

    class RuntimeRecord(TypedDict):
        """One file of ``inspect --runtime``; of one that could not be read, ``error`` is the reason."""

        path: str
        size: int | None
        units: list[UnitRecord]
        findings: list[FindingRecord]
        verdict: NotRequired[str]
        why_not: NotRequired[str]
        not_checked: NotRequired[str]
        unlisted_findings: NotRequired[list[UnlistedRecord]]
        error: NotRequired[FailureRecord]
