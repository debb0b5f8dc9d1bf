"""Container formats: one package per format, all with the same interface.

============  =======================================================================================
``DOC``        the format's description (:class:`fatpack.layout.FormatInfo`)
``LAYOUTS``    the fixed records, for documents and oracle tests
``detect``     ``detect(view, at) -> bool``: cheap; reads a bounded number of bytes, never raises
``extent``     ``extent(view, at) -> int | None``: bytes the header claims, if they are there; never raises
``parse``      ``parse(view, at) -> Container``: bounds-checked; keeps what it does not understand
``write``      ``write(container, options=None) -> Iterator[Piece]``: deterministic; never one joined string. Without
               options (:mod:`fatpack.writer_options`) a container that was read is laid out as it was
``labels``     ``labels(view, container) -> Iterator[Label]``: every byte of the container, once
``describe``   ``describe(container) -> dict``: further facts for reports, as plain data
============  =======================================================================================

A format knows no host. ``MAGICS`` lets :mod:`fatpack.scanner` recognise containers without importing any format.
"""

from __future__ import annotations

from fatpack import magic_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Protocol

    from fatpack.formats.described import StoredFacts
    from fatpack.io.source import Piece, View
    from fatpack.layout import FormatInfo, Layout
    from fatpack.model import Container, Finding, Label

    class ContentVerifier(Protocol):
        """Interface of formats whose listing leaves content unchecked. ``verify`` raises FormatError."""

        def is_hashed(self, container: Container) -> bool: ...  # noqa: D102
        def is_unchecked(self, container: Container) -> bool: ...  # noqa: D102
        def verify(self, container: Container) -> list[Finding]: ...  # noqa: D102

    class Format(Protocol):
        """Interface of a format package."""

        DOC: FormatInfo
        LAYOUTS: Sequence[Layout]

        def detect(self, view: View, at: int = 0) -> bool: ...  # noqa: D102
        def extent(self, view: View, at: int = 0) -> int | None: ...  # noqa: D102
        def parse(self, view: View, at: int = 0) -> Container: ...  # noqa: D102
        def write(self, container: Container, options: Any = None) -> Iterator[Piece]: ...  # noqa: D102
        def labels(self, view: View, container: Container) -> Iterator[Label]: ...  # noqa: D102
        def describe(self, container: Container) -> StoredFacts: ...  # noqa: D102


#: JSON name of the format → module
MODULES = {
    "llvm-offload-binary": "fatpack.formats.offload_binary",
    "clang-offload-bundle": "fatpack.formats.clang_bundle",
    "cir-offload-container": "fatpack.formats.cir",
    "cuda-fatbin": "fatpack.formats.cuda_fatbin",
    "rocm-kpack": "fatpack.formats.kpack",
    "aotriton-aks2": "fatpack.formats.aks2",
    "syclbin": "fatpack.formats.syclbin",
    "metal-library": "fatpack.formats.metallib",
    "rocm-kernel-cache": "fatpack.formats.kernel_cache",
}

#: JSON name of the format → module with ``is_hashed``, ``is_unchecked`` and ``verify``, each of a container: checks
#: that need all of its content, which listing does not read
CONTENT_VERIFIERS = {
    "clang-offload-bundle": "fatpack.formats.clang_bundle.compressed",
    "llvm-offload-binary": "fatpack.formats.offload_binary",
    "metal-library": "fatpack.formats.metallib.content",
    "rocm-kernel-cache": "fatpack.formats.kernel_cache",
}

#: JSON name of the format → module with ``symptoms(container, findings)``: signs of known bugs in its producers
SYMPTOMS = {"clang-offload-bundle": "fatpack.formats.clang_bundle.byte_labels"}

#: JSON name of a pseudo-format, listed like a container → module, with ``describe``, ``labels`` and ``write``
PSEUDO_FORMATS = {"bare-image": "fatpack.scanner.bare_images", "gcc-offload": "fatpack.registration.gcc_container"}

#: first bytes of a container → JSON name of its format. Formats without a module are only named in reports.
MAGICS = {
    magic_numbers.OFFLOAD_BINARY: "llvm-offload-binary",
    magic_numbers.BUNDLE: "clang-offload-bundle",
    magic_numbers.COMPRESSED_BUNDLE: "clang-offload-bundle",
    magic_numbers.FATBIN: "cuda-fatbin",
    magic_numbers.KPACK: "rocm-kpack",
    magic_numbers.AKS2: "aotriton-aks2",
    magic_numbers.SYCLBIN: "syclbin",
    magic_numbers.METALLIB: "metal-library",
    magic_numbers.OLD_FATBIN: "cuda-fatbin-old",
}


#: four bytes → the magic that starts with them
_MAGIC_OF = {magic[:4]: magic for magic in MAGICS}


#: names of the plug-ins' formats; None until plug-ins are loaded
_plugin_names: list[tuple[str, ...]] = []


def add_plugins() -> bool:
    """Add the formats of plug-ins (:mod:`fatpack.plugins`); return whether this call added any.

    Called for bytes that no built-in format recognises; plug-ins are loaded once.
    """
    if _plugin_names:
        return False
    _plugin_names.append(())
    from fatpack import plugins

    for plugin in plugins.load_plugins(plugins.FORMATS, (*MODULES, *PSEUDO_FORMATS, *MAGICS.values()), tuple(MAGICS)):
        MODULES[plugin.name] = plugin.module.__name__
        _LOADED[plugin.name] = plugin.module
        MAGICS.update(dict.fromkeys(plugin.begins, plugin.name))
        _MAGIC_OF.update({magic[:4]: magic for magic in plugin.begins})
        _plugin_names[0] += (plugin.name,)
    return bool(_plugin_names[0])


def plugin_names() -> tuple[str, ...]:
    """Return the JSON names of the formats that plug-ins added."""
    return _plugin_names[0] if _plugin_names else ()


def format_by_magic(head: bytes) -> str | None:
    """Return the JSON name of the container format whose magic these bytes start with, or None."""
    magic = _MAGIC_OF.get(head[:4])
    return MAGICS[magic] if magic is not None and head.startswith(magic) else None


#: Bytes in which an offload binary of versions 2 and 3 has its first image kind, if its entries follow its header.
_KIND_AT = {2: 32, 3: 40}

#: ImageKind of a SYCLBIN file: the current number, and the one used before LLVM gave that to SPIR-V.
_SYCLBIN_KINDS = (b"\7\0", b"\6\0")


def format_at(view: View, at: int = 0) -> str | None:
    """Return the JSON name of the format of the container that starts at a position, None if none does.

    :func:`format_by_magic` knows only the magic; this also identifies SYCLBIN, an offload binary since version 2.
    """
    head = view.head(at, 48)
    name = format_by_magic(head)
    if name is None and not _plugin_names and add_plugins():
        name = format_by_magic(head)
    if name == "llvm-offload-binary":
        kind = _KIND_AT.get(int.from_bytes(head[4:8], "little"))
        if kind is not None and head[kind : kind + 2] in _SYCLBIN_KINDS and get_format("syclbin").detect(view, at):
            return "syclbin"
    return name


#: Text in the first marker line of a text bundle; it is preceded by a comment token that differs by language.
_TEXT_MARKER = magic_numbers.BUNDLE + b"__START__ "

#: LIMIT: bytes searched for the first marker of a text container.
_TEXT_HEAD = 4096


#: First bytes of MLIR, as text after blanks and comments or as bytecode. Such a file is examined by ``formats.cir``.
_MLIR = (b"module", b"builtin.module", b'"', b"cir.", b"{-#", b"#", b"!", magic_numbers.MLIR_BYTECODE)


def find_text_format(view: View) -> str | None:
    """Return the JSON name of the text container a file is, or None; reads its first bytes only.

    MLIR bytecode counts as text: it has a magic, but nothing else in a file says whether it is a container. So do
    databases of SQLite.
    """
    head = view.head(0, _TEXT_HEAD)
    if _TEXT_MARKER in head and get_format("clang-offload-bundle").detect(view):
        return "clang-offload-bundle"
    if head.startswith(magic_numbers.SQLITE):
        return "rocm-kernel-cache" if get_format("rocm-kernel-cache").detect(view) else None
    if _may_be_mlir(head) and get_format("cir-offload-container").detect(view):
        return "cir-offload-container"
    return None


def _may_be_mlir(head: bytes) -> bool:
    text = head.lstrip(b" \t\r\n")
    while text.startswith(b"//"):
        text = text.partition(b"\n")[2].lstrip(b" \t\r\n")
    if text in (b"", b"/"):  # nothing but comments so far: a licence
        return head.lstrip(b" \t\r\n").startswith(b"//")
    return text.startswith(_MLIR) and (text[:1] not in b"#!" or b"=" in text[:256])


#: JSON name → module, for the formats imported so far
_LOADED: dict[str, Format] = {}


def get_format(name: str) -> Format:
    """Return the module of the format, or pseudo-format, with that JSON name; imports it."""
    # Called for every container of a file; the import system takes several times as long.
    known = _LOADED.get(name)
    if known is None:
        known = _LOADED[name] = __import__(MODULES.get(name) or PSEUDO_FORMATS[name], fromlist=["write"])
    return known


def content_verifier(name: str) -> ContentVerifier | None:
    """Return the module that checks a format's content; None if listing checks all of it. Imports the module."""
    return __import__(CONTENT_VERIFIERS[name], fromlist=["verify"]) if name in CONTENT_VERIFIERS else None


def symptoms(container: Container, findings: Iterable[Finding]) -> Iterable[str]:
    """Return the names of the signs of known producer bugs that a container shows."""
    name = SYMPTOMS.get(container.format)
    if name is None:
        return ()
    found: Iterable[str] = __import__(name, fromlist=["symptoms"]).symptoms(container, findings)
    return found
