"""Types of the facts that ``describe`` of a format returns: ``stored`` in the listing of ``inspect``.

Each key belongs to the formats that its comment names, and is absent for others. Formats of plug-ins have keys of their
own. Only annotations use this module: no command loads it.
"""

from __future__ import annotations

from typing import TypeAlias, TypedDict


class HexValue(TypedDict):
    """Bytes that are not text, as hexadecimal digits."""

    hex: str


PropertyValue: TypeAlias = int | str | HexValue

#: name of a property set → name of a property → its value
PlainPropertySets: TypeAlias = dict[str, dict[str, PropertyValue]]


class EntryFacts(TypedDict, total=False):
    """The stored numbers of an entry of a container, in the order of its images."""

    # CUDA fat binary
    kind: int
    flags: int  # also of offload binaries
    code_version: str
    compat: str
    group: int
    # offload binary
    image_kind: int
    offload_kind: int
    # Clang bundle, and the images that a linked program registers
    id: str | None
    offset: int
    section_index: int
    table_size: int | None
    properties: PlainPropertySets
    properties_unread: str


class StubFacts(TypedDict):
    """A function of a CIR host module that launches a kernel."""

    symbol: str | None
    kernel: str


class ModuleFacts(TypedDict, total=False):
    """A module of CIR, or an abstract module of a SYCLBIN file (``am_index`` and ``properties`` alone)."""

    name: str | None
    role: str
    target: str
    attributes: dict[str, str]
    op_counts: dict[str, int]
    kernels: list[str] | None
    stubs: list[StubFacts]
    # of a file that is no container
    id: str | None
    offload: str
    triple: str
    arch: str
    # SYCLBIN
    am_index: int
    properties: PlainPropertySets


class SyclImageFacts(TypedDict):
    """An image of a SYCLBIN file."""

    role: str
    am_index: int | None
    properties: PlainPropertySets


class StoredFacts(TypedDict, total=False):
    """Facts that one format stores beyond the common model."""

    entries: list[EntryFacts]
    # CIR and SYCLBIN
    modules: list[ModuleFacts]
    definition_runs: int
    # SYCLBIN
    state: int | None
    properties: PlainPropertySets
    images: list[SyclImageFacts]
    # Clang bundle
    entry_count: int  # also of AKS2 archives
    table_size: int
    size: int | None
    hash: str
    symbols: dict[str, list[str]]
    # offload binary and compressed bundle
    order: str
    inflated_size: int | None
    compression: str | None  # also of kpack archives
    # kpack archive
    group: str
    family: str
    archs: list[str]
    ordinals: list[int]
    # Metal library
    types: dict[str, int]
    air: dict[str, int]
    metal: dict[str, int]
    install_name: str
    linked: list[str]
    tags: list[str]
    # AKS2 archive
    without_code: int
    total_size: int
    directory_size: int
    # kernel cache
    store: str
    table: str
    compute_units: int | None
