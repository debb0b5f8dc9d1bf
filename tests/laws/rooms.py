"""What the laws need to know of each room. A room in the registry without an entry here fails the laws.

``models`` is a hypothesis strategy of containers the room can write, ``fixtures`` a folder of small real files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from fatpack import formats
from fatpack.formats.clang_bundle import parse_id
from fatpack.io.source import BytesSource, View
from fatpack.model import Container, Image, Span, Target

FIXTURES = Path(__file__).parent.parent / "fixtures"


def view_of(data: bytes, name: str = "test") -> View:
    return BytesSource(data, name).view()


def joined(pieces: object) -> bytes:
    """Return what a writer yields as one string."""
    parts: list[bytes] = []
    for piece in pieces:  # type: ignore[attr-defined]
        parts.append(_bytes(piece))
    return b"".join(parts)


def _bytes(piece: object) -> bytes:
    return piece.tobytes() if isinstance(piece, View) else bytes(piece)  # type: ignore[call-overload]


def image(data: bytes, **facts: object) -> Image:
    view = view_of(data, "image")
    facts = {"target": Target(), "form": "object", **facts}
    return Image(data=view, size=len(data), stored_size=len(data), span=view.span(), **facts)  # type: ignore[arg-type]


_WORDS = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=20)


@st.composite
def _offload_binary(draw: st.DrawFn) -> Container:
    version = draw(st.sampled_from([1, 2, 3]))
    images = draw(
        st.lists(
            st.builds(
                image,
                st.binary(max_size=200),
                target=st.builds(Target, _WORDS, _WORDS, st.sampled_from(["none", "openmp", "cuda", "hip", "sycl"])),
                form=st.sampled_from(["", "object", "bitcode", "cubin", "fatbin", "ptx", "spirv"]),
                attrs=st.dictionaries(_WORDS.filter(lambda key: key not in ("arch", "triple")), _WORDS, max_size=4),
            ),
            min_size=1,
            max_size=1 if version == 1 else 5,
        )
    )
    attrs = {"compression": draw(st.sampled_from(["zlib", "zstd"]))} if version == 3 and draw(st.booleans()) else {}
    return Container("llvm-offload-binary", version, tuple(images), Span(0, 0), attrs=attrs)


_IDS = st.one_of(
    st.builds(
        lambda kind, triple, arch: f"{kind}-{triple}-{arch}",
        st.sampled_from(["host", "hip", "hipv4", "openmp", "sycl", "hcc"]),
        st.sampled_from(["amdgcn-amd-amdhsa-", "x86_64-unknown-linux-gnu", "spir64-unknown-unknown"]),
        st.sampled_from(["", "gfx906", "gfx90a:sramecc+:xnack-", "gfx9-4-generic", "gfx940", "sm_90a"]),
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=20),
)


@st.composite
def _clang_bundle(draw: st.DrawFn) -> Container:
    ids = draw(st.lists(_IDS, max_size=5, unique=True))
    images = [image(draw(st.binary(max_size=200)), target=parse_id(spelling).target, form="") for spelling in ids]
    images = [item.replace(attrs={"id": spelling}) for item, spelling in zip(images, ids, strict=True)]
    attrs = {"flavour": draw(st.sampled_from(["binary", "compressed"])), "align": str(draw(st.integers(1, 300)))}
    version = 0
    if ids and draw(st.booleans()):
        flavour = {"flavour": "text", "comment": draw(st.sampled_from(["//", "#", ";"]))}
        attrs = {**attrs, **flavour} if attrs["flavour"] == "binary" else {**attrs, "inside": "text", **flavour}
        attrs["flavour"] = "compressed" if "inside" in attrs else "text"
    if attrs["flavour"] == "compressed":
        version = draw(st.sampled_from([1, 2, 3]))
        attrs["compression"] = draw(st.sampled_from(["zlib", "zstd"]))
    return Container("clang-offload-bundle", version, tuple(images), Span(0, 0), attrs=attrs)


@dataclass(frozen=True)
class FormatCases:
    models: st.SearchStrategy[Container]
    fixtures: Path


FORMATS = {
    "llvm-offload-binary": FormatCases(_offload_binary(), FIXTURES / "offload_binary"),
    "clang-offload-bundle": FormatCases(_clang_bundle(), FIXTURES / "clang_bundle"),
}

#: host room → folder of small real files of that kind
HOSTS: dict[str, Path] = {
    "elf": FIXTURES / "elf",
    "archive": FIXTURES / "archive",
    "pe": FIXTURES / "pe",
    "bitcode": FIXTURES / "bitcode",
    "coff": FIXTURES / "coff",
}


def fixtures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.endswith((".json", ".md")))


def format_fixtures() -> list[tuple[str, Path]]:
    return [(name, path) for name, cases in FORMATS.items() for path in fixtures(cases.fixtures)]


def host_fixtures() -> list[tuple[str, Path]]:
    return [(name, path) for name, folder in HOSTS.items() for path in fixtures(folder)]


def walk(name: str, data: bytes) -> list[Container]:
    """Return all containers of a file that holds nothing else."""
    room, view, at, found = formats.room(name), view_of(data), 0, []
    while at < len(view) and room.detect(view, at):
        found.append(room.parse(view, at))
        at += found[-1].span.size
    return found


__all__ = ["FORMATS", "HOSTS", "fixtures", "format_fixtures", "host_fixtures", "image", "joined", "view_of", "walk"]
