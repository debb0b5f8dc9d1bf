"""Test data of each format and host for the laws. A registered module without an entry here fails the laws.

``models`` is a hypothesis strategy of containers that the module can write, ``fixtures`` a folder of small real files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from tests.builders import amd_stores, fatbin

from fatpack.formats.cir.bundle_id import module_name
from fatpack.formats.cir.bundle_id import parse_bundle_id as parse_cir_id
from fatpack.formats.clang_bundle.bundle_id import parse_bundle_id
from fatpack.formats.syclbin.layout import NewModules
from fatpack.formats.syclbin.properties import write_property_set
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target
from fatpack.testing.formats import read_all_containers
from fatpack.testing.helpers import join_pieces, make_image, make_view
from fatpack.writer_options import FatbinOptions, Options

FIXTURES = Path(__file__).parent.parent / "fixtures"


_WORDS = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=20)

_TEXT = _WORDS.filter(bool)


@st.composite
def _offload_binary(draw: st.DrawFn) -> Container:
    version = draw(st.sampled_from([1, 2, 3]))
    images = draw(
        st.lists(
            st.builds(
                make_image,
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
    images = [
        make_image(draw(st.binary(max_size=200)), target=parse_bundle_id(spelling).target, form="") for spelling in ids
    ]
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


@st.composite
def _kpack(draw: st.DrawFn) -> Container:
    names = st.tuples(_WORDS, st.sampled_from(["gfx900", "gfx90a:xnack-", "gfx1100", "gfx9-4-generic", "odd"]))
    images = [
        make_image(
            draw(st.binary(max_size=200)),
            target=Target("amdgcn-amd-amdhsa", arch, "hip"),
            form="",
            attrs={"binary": binary, "type": draw(st.sampled_from(["hsaco", "", "other"]))},
        )
        for binary, arch in draw(st.lists(names, max_size=5, unique=True))
    ]
    attrs = draw(st.fixed_dictionaries({}, optional={"compression": st.just("zstd"), "group": _TEXT, "family": _TEXT}))
    return Container("rocm-kpack", 1, tuple(images), Span(0, 0), attrs=attrs)


@st.composite
def _aks2(draw: st.DrawFn) -> Container:
    code = [(amd_stores.hsaco(arch), Target("amdgcn-amd-amdhsa", arch, "hip")) for arch in ("gfx942", "gfx1100")]
    other = st.tuples(st.binary(min_size=1, max_size=60), st.just(Target("", "", "hip")))
    images = []
    for key in draw(st.lists(_WORDS, max_size=4, unique=True)):
        data, target = draw(st.one_of(st.sampled_from(code), other))
        numbers = {name: str(draw(st.integers(0, 2048))) for name in ("shared_memory", "threads")}
        images.append(make_image(data, target=target, form="", attrs={"key": key, **numbers}))
    return Container("aotriton-aks2", 2, tuple(images), Span(0, 0))


@st.composite
def _kernel_cache(draw: st.DrawFn) -> Container:
    store = draw(st.sampled_from(["MIOpen", "rocFFT"]))
    images = []
    for name in draw(st.lists(_WORDS, max_size=4, unique=True)):
        arch = draw(st.sampled_from(["gfx900", "gfx90a:xnack-", "gfx1100"]))
        target = Target("amdgcn-amd-amdhsa", arch, "hip")
        data = draw(st.binary(min_size=1, max_size=9000))
        attrs = {"name": name, "options": f"{draw(_WORDS)} -mcpu={arch} x", "md5": hashlib.md5(data).hexdigest()}
        if store == "rocFFT":
            attrs = {"name": name, "hip_version": "60443483", "generator": draw(st.binary(max_size=32)).hex()}
        image = make_image(data, target=target, form="", attrs=attrs)
        images.append(image.replace(compression=draw(st.sampled_from([None, "bzip2"])) if store == "MIOpen" else None))
    return Container("rocm-kernel-cache", 1, tuple(images), Span(0, 0), attrs={"store": store})


@st.composite
def _syclbin(draw: st.DrawFn) -> Container:
    images = []
    for number in range(draw(st.integers(0, 3))):
        for role in draw(st.sampled_from([("ir",), ("native",), ("ir", "native"), ("ir", "native", "native"), ()])):
            arch = draw(_WORDS) if role == "native" else ""
            attrs = {"role": role, "am_index": str(number)}
            attrs |= {"ir_type": draw(st.sampled_from(["0", "1", "2", "77"]))} if role == "ir" else {}
            target = Target(draw(_WORDS), arch, "sycl")
            images.append(make_image(draw(st.binary(max_size=200)), target=target, form="", attrs=attrs))
    name, value = draw(_WORDS).replace("\n", ""), draw(st.integers(0, (1 << 32) - 1))
    text = write_property_set(name, [("one", value), ("two", draw(st.binary(max_size=20)))])
    properties = dict.fromkeys(draw(st.sets(st.integers(0, 4))), text)
    attrs = {"state": draw(st.sampled_from(["input", "object", "executable"]))}
    version = draw(st.sampled_from([1, 2]))
    return Container("syclbin", version, tuple(images), Span(0, 0), attrs=attrs, record=NewModules(properties))


@st.composite
def _metal(draw: st.DrawFn) -> Container:
    system = draw(st.sampled_from([("macOS", "14.0", "macosx14.0.0"), ("iOS", "17.0.1", "ios17.0.1")]))
    images = []
    for name in draw(st.lists(_TEXT, max_size=5, unique=True)):
        kind = draw(st.sampled_from(["kernel", "vertex", "fragment", "visible"]))
        attrs = {"name": name, "type": kind, "air": "2.6", "metal": draw(st.sampled_from(["3.0", "3.1"]))}
        target = Target(f"air64_v26-apple-{system[2]}", "air64", "none")
        images.append(make_image(draw(st.binary(max_size=200)), target=target, form="air", attrs=attrs))
    attrs = {"platform": system[0], "needs": system[1]}
    attrs |= {"uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f"} if draw(st.booleans()) else {}
    return Container("metal-library", 0, tuple(images), Span(0, 0), attrs=attrs)


#: Lines of modules in generic syntax, with everything that could be taken for something else.
_LINES = st.sampled_from(
    [
        '"cir.global"() <{sym_name = ".str"}> {init = "}{ \\22 //"} : () -> ()',
        '"cir.func"() <{sym_name = "k"}> ({\n      "cir.return"() : () -> ()\n    }) : () -> () loc("a.cu":1:2)',
        "// } a comment {",
        '"cir.use"() {a = #cir.demo<"}{", [1, {k = "->"}], (a -> b)>, b = affine_set<(d0) : (d0 <= 5)>} : () -> ()',
        '"cir.scope"() ({\n    ^bb0:  // 2 preds: ^bb1\n      "cir.yield"() : () -> ()\n    })'
        " {c = [{v = 1}]} : () -> ()",
    ]
)


@st.composite
def _cir(draw: st.DrawFn) -> Container:
    ids = [f"host-{draw(st.sampled_from(['x86_64-unknown-linux-gnu', 'aarch64-unknown-linux-gnu-']))}"]
    ids += draw(
        st.lists(
            st.builds(
                lambda kind, arch: f"{kind}-{arch}",
                st.sampled_from(["cuda-nvptx64-nvidia-cuda-", "hip-amdgcn-amd-amdhsa-", "openmp-amdgcn-amd-amdhsa-"]),
                st.sampled_from(["sm_80", "gfx90a:xnack+", "gfx90a:xnack-", "gfx940", "future-1"]),
            ),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    images, names = [], {"host"}
    for spelling in ids:
        role = "device" if images else "host"
        name = module_name(spelling, names) if images else "host"
        names.add(name)
        body = "".join(f"\n    {line}" for line in draw(st.lists(_LINES, max_size=4)))
        place = draw(st.sampled_from(["", ' loc("a.cu":0:0)', " loc(unknown)"]))
        kind = f"cir.offload.kind = #cir.offload<{role}>"
        text = f'module @{name} attributes {{cir.offload.bundle_id = "{spelling}", {kind}}} {{{body}\n  }}{place}'
        target = parse_cir_id(spelling).target
        images.append(make_image(f"{text}\n".encode(), target=target, form="cir", attrs={"id": spelling}))
    return Container("cir-offload-container", 0, tuple(images), Span(0, 0), attrs={"form": "attribute"})


_LABELS = st.fixed_dictionaries(
    {},
    optional={
        "identifier": st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), min_size=1, max_size=20),
        "host": st.sampled_from(["windows", "mac", "none"]),
        "debug": st.just("yes"),
    },
)


@st.composite
def _fatbin_image(draw: st.DrawFn) -> Image:
    number = draw(st.integers(20, 130))
    arch = f"sm_{number}{draw(st.sampled_from(['', 'a', 'f']))}"
    attrs = draw(_LABELS)
    form = draw(st.sampled_from(["cubin", "ptx", "ltoir", "tileir", ""]))
    triple, filling = "nvptx64-nvidia-cuda", draw(st.binary(max_size=100))
    if form == "cubin":
        is_wide = draw(st.booleans())
        triple = triple if is_wide else "nvptx-nvidia-cuda"
        compat = draw(st.sampled_from([b"", filling]))
        data = fatbin.cubin(number, code=fatbin.padded(filling), compat=compat, bits=64 if is_wide else 32)
    elif form == "ptx":
        attrs |= {"kind": "relocatable-ptx"} if draw(st.booleans()) else {}
        data = fatbin.ptx(draw(st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=100)))
    elif form:
        magic = b"\xed\x43\x4e\x7f" if form == "ltoir" else b"\x7fTileIR\0"
        data = fatbin.padded(magic + bytes(8) + filling)
    else:
        attrs["kind"] = draw(st.sampled_from(["index", "pre-elf-cubin", "elf-like"]))
        data = fatbin.padded(b"\1" + filling)
    if form and form != "cubin":
        attrs |= draw(st.sampled_from([{}, {"options": "-O3 -v"}]))
    return make_image(data, target=Target(triple, arch, "cuda"), form=form, attrs=attrs)


@st.composite
def _cuda_fatbin(draw: st.DrawFn) -> Container:
    return Container("cuda-fatbin", 1, tuple(draw(st.lists(_fatbin_image(), max_size=4))), Span(0, 0))


_FATBIN_OPTIONS = st.builds(
    FatbinOptions,
    producer=st.sampled_from(["12.8", "13.0", "13.5"]),
    compress_mode=st.sampled_from(["default", "speed", "balance", "size", "none"]),
    compress_all=st.booleans(),
)


@dataclass(frozen=True)
class FormatCases:
    """Test data of a format; ``is_whole_file`` if a file holds one container and nothing else.

    ``options`` are the options for writing models, None for the layout in the models themselves. ``findings`` are the
    codes that written containers may have.
    """

    models: st.SearchStrategy[Container]
    fixtures: Path
    is_whole_file: bool = False
    options: st.SearchStrategy[Options | None] = st.none()  # noqa: RUF009  (a strategy never changes)
    findings: frozenset[str] = frozenset()


FORMATS = {
    "llvm-offload-binary": FormatCases(_offload_binary(), FIXTURES / "offload_binary"),
    "clang-offload-bundle": FormatCases(_clang_bundle(), FIXTURES / "clang_bundle"),
    "cir-offload-container": FormatCases(_cir(), FIXTURES / "cir", is_whole_file=True),
    # Kinds of entries that no producer writes are written all the same, and named when they are read.
    "cuda-fatbin": FormatCases(
        _cuda_fatbin(), FIXTURES / "cuda_fatbin", options=_FATBIN_OPTIONS, findings=frozenset(("FP1407",))
    ),
    "aotriton-aks2": FormatCases(_aks2(), FIXTURES / "aks2"),
    "rocm-kpack": FormatCases(_kpack(), FIXTURES / "kpack"),
    "rocm-kernel-cache": FormatCases(_kernel_cache(), FIXTURES / "kernel_cache", is_whole_file=True),
    "syclbin": FormatCases(_syclbin(), FIXTURES / "syclbin"),
    "metal-library": FormatCases(_metal(), FIXTURES / "metallib"),
}

#: host room → folder of small real files of that kind
HOSTS: dict[str, Path] = {
    "elf": FIXTURES / "elf",
    "archive": FIXTURES / "archive",
    "pe": FIXTURES / "pe",
    "bitcode": FIXTURES / "bitcode",
    "coff": FIXTURES / "coff",
    "macho": FIXTURES / "macho",
    "universal": FIXTURES / "universal",
}


def cases(name: str) -> FormatCases:
    """Return the test data of a format; a failure names the place for it."""
    assert name in FORMATS, f"tests/laws/rooms.py: give FORMATS an entry for {name}, its models and its fixtures"
    return FORMATS[name]


def fixtures(folder: Path) -> list[Path]:
    """Return the files of a folder, none if there is no such folder: a law says which one is missing."""
    return sorted(path for path in folder.glob("*") if path.is_file() and not path.name.endswith((".json", ".md")))


def format_fixtures() -> list[tuple[str, Path]]:
    return [(name, path) for name, cases in FORMATS.items() for path in fixtures(cases.fixtures)]


def successive_fixtures() -> list[tuple[str, Path]]:
    """Return the fixtures of formats whose containers may follow each other."""
    return [(name, path) for name, path in format_fixtures() if not FORMATS[name].is_whole_file]


def host_fixtures() -> list[tuple[str, Path]]:
    return [(name, path) for name, folder in HOSTS.items() for path in fixtures(folder)]


__all__ = [
    "FORMATS",
    "HOSTS",
    "cases",
    "fixtures",
    "format_fixtures",
    "host_fixtures",
    "join_pieces",
    "make_image",
    "make_view",
    "read_all_containers",
    "successive_fixtures",
]
