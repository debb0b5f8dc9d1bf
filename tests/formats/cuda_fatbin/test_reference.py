"""Writers compared with fatbinary, byte for byte, and their files read by cuobjdump.

Any fatbinary of CUDA 13 will do: the tests choose the producer that writes as it does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import cuobjdump, reference

from fatpack.errors import UsageError
from fatpack.formats.cuda_fatbin import parse, write
from fatpack.formats.cuda_fatbin.new_entry import minify_ptx
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import join_pieces, make_image, make_view
from fatpack.writer_options import FatbinOptions

pytestmark = pytest.mark.reference

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDED = FIXTURES / "cuda_fatbin"
KINDS = {"cubin": "elf", "ptx": "ptx", "ltoir": "nvvm"}


def version() -> tuple[int, int]:
    """Return the version of fatbinary; the test is skipped if there is none."""
    text = reference.run("fatbinary", "--version").stdout.decode()
    major, minor = text.rpartition("release ")[2].partition(",")[0].split(".")
    return int(major), int(minor)


def producer() -> str:
    return "13.0" if version() < (13, 1) else "13.5"


def cubin(arch: str, name: str = "k1.cuda13.0.sm_{}.cubin") -> Image:
    data = (FIXTURES / "cuda" / "cubin" / name.format(arch)).read_bytes()
    return make_image(data, form="cubin", target=Target("nvptx64-nvidia-cuda", f"sm_{arch}", "cuda"))


def ptx(arch: str, text: bytes | None = None) -> Image:
    data = (FIXTURES / "cuda" / "ptx" / f"k1.compute_{arch}.ptx").read_bytes() if text is None else text
    return make_image(data, form="ptx", target=Target("nvptx64-nvidia-cuda", f"sm_{arch}", "cuda"))


def ltoir() -> Image:
    (found,) = parse(make_view((RECORDED / "recorded" / "v130_ltoir_uncompressed.fatbin").read_bytes())).images
    data = found.data.tobytes()
    return make_image(data, form="ltoir", target=found.target, attrs=found.attrs)


def written(images: Sequence[Image], **options: Any) -> bytes:
    chosen = FatbinOptions(**options) if options else None
    return join_pieces(write(Container("cuda-fatbin", 1, tuple(images), Span(0, 0)), chosen))


def made(folder: Path, images: Sequence[Image], *options: str, bits: str = "-64") -> bytes:
    """Return fatbinary's output."""
    inputs = []
    for number, item in enumerate(images):
        (folder / f"in{number}").write_bytes(item.data.tobytes())
        sm = item.target.arch.removeprefix("sm_")
        inputs.append(f"--image3=kind={KINDS[item.form]},sm={sm},file={folder / f'in{number}'}")
    reference.run("fatbinary", f"--create={folder / 'out'}", bits, *options, *inputs)
    return (folder / "out").read_bytes()


#: images of the sets, and options → attributes of the container, options → attributes of the images
SETS = {
    "plain": lambda: [cubin("80"), cubin("90"), ptx("80")],
    "specific": lambda: [ptx("90a"), cubin("90a"), cubin("90", "tiny.cuda12.9.sm_90.cubin")],
    "family": lambda: [cubin("100f"), cubin("120a"), ptx("100f"), cubin("100a", "tiny.cuda12.9.sm_100a.cubin")],
    "old": lambda: [cubin("52", "tiny.cuda11.2.sm_52.cubin"), cubin("80", "tiny.cuda11.8.sm_80.cubin")],
    "none": list[Image],
}
MODES: dict[str, Mapping[str, str]] = {
    "": {},
    "-compress-all": {"compress_all": True},
    "-compress=false": {"compress_mode": "none"},
    "-compress-mode=none -compress-all": {"compress_mode": "none", "compress_all": True},
    "-compress-mode=default": {"compress_mode": "default"},
    "-compress-mode=speed": {"compress_mode": "speed"},
    "-compress-mode=speed -compress-all": {"compress_mode": "speed", "compress_all": True},
    "-compress-mode=balance -compress-all": {"compress_mode": "balance", "compress_all": True},
    "-compress-mode=size": {"compress_mode": "size"},
    "-c": {"compress_all": True},
    "-link": {},
}
LABELS: dict[str, Mapping[str, str]] = {
    "": {},
    "-g": {"debug": "yes"},
    "-ident=src/k1.cu -cmdline=-O1": {"identifier": "src/k1.cu", "options": "-O1"},
    "-ident=12345678": {"identifier": "12345678"},
}


def _labelled(images: Sequence[Image], labels: Mapping[str, str]) -> list[Image]:
    """Return images with these attributes; cubins have no options."""
    known = [{key: labels[key] for key in labels if key != "options" or item.form != "cubin"} for item in images]
    return [item.replace(attrs=attrs) for item, attrs in zip(images, known, strict=True)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SETS)
def test_what_is_written_equals_fatbinary_to_the_byte(name: str, mode: str, tmp_path: Path) -> None:
    images, style = SETS[name](), producer()
    for options, labels in LABELS.items():
        expected = made(tmp_path, images, *mode.split(), *options.split())
        found = written(_labelled(images, labels), producer=style, minify_ptx=True, **MODES[mode])
        if style == "13.0" and MODES[mode].get("compress_mode") == "speed":
            # The mode speed of 13.0 is made by LZ4 1.10, which compresses differently; the content must be the same.
            assert _contents(found) == _contents(expected)
        else:
            assert found == expected, options


def _contents(data: bytes) -> list[tuple[Target, dict[str, str], bytes]]:
    return [(item.target, dict(item.attrs), item.data.tobytes()) for item in parse(make_view(data)).images]


@pytest.mark.parametrize("mode", [mode for mode, attrs in MODES.items() if attrs.get("compress_mode") != "none"])
@pytest.mark.parametrize("name", SETS)
def test_groups_equal_those_of_fatbinary_to_the_byte(name: str, mode: str, tmp_path: Path) -> None:
    if version() < (13, 4):
        pytest.skip("fatbinary writes groups since 13.4")
    images = SETS[name]()
    images = [*images, *images[:1]]
    for options, labels in LABELS.items():
        expected = made(tmp_path, images, "-concat", *mode.split(), *options.split())
        labelled = _labelled(images, labels)
        assert written(labelled, producer="13.5", minify_ptx=True, concat=True, **MODES[mode]) == expected, options


def test_lto_ir_and_32_bit_entries_equal_those_of_fatbinary(tmp_path: Path) -> None:
    assert written([ltoir()], compress_mode="none") == made(tmp_path, [ltoir()], "-compress=false")
    narrow = ptx("80").replace(target=Target("nvptx-nvidia-cuda", "sm_80", "cuda"))
    options = {"minify_ptx": True, "producer": producer()}
    assert written([narrow], **options) == made(tmp_path, [narrow], bits="-32")


def _random_text(seed: int) -> bytes:
    chooser = random.Random(seed)
    parts = ["//", "/*", "*/", '"', "\\", " ", "\t", "\n", "\r", "\v", "\f", "/", "*", "a", ";", ".reg", "  ", '"a b"']
    body = "".join(chooser.choices(parts, k=chooser.randint(0, 60)))
    lead = "".join(chooser.choices(parts[:1] + parts[5:9], k=chooser.randint(0, 3)))
    return f"{lead}\n.version {chooser.randint(1, 12)}.{chooser.randint(0, 12)}\n.target sm_80\n{body}".encode()


def test_random_texts_are_minified_as_fatbinary_does(tmp_path: Path) -> None:
    images = [ptx("80", _random_text(seed)) for seed in range(300)]
    expected = made(tmp_path, images, "-compress=false")
    assert written(images, minify_ptx=True, compress_mode="none") == expected
    assert sum(minify_ptx(item.data.tobytes()) != item.data.tobytes() for item in images) > 200


def test_texts_that_end_in_a_nul_are_stored_as_fatbinary_stores_them(tmp_path: Path) -> None:
    text = ptx("80").data.tobytes()
    images = [ptx("80", text + bytes(count)) for count in (0, 1, 3)]
    assert written(images, minify_ptx=True, compress_mode="none") == made(tmp_path, images, "-compress=false")


@pytest.mark.parametrize(
    "text", ["", ".target sm_80", ".version 9", ".version x.1", ".version 9.a", "//.version 3\n.version 9.0"]
)
def test_texts_without_a_version_are_refused_as_fatbinary_does(text: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(text)
    option = f"--image3=kind=ptx,sm=80,file={tmp_path / 'in'}"
    assert reference.run("fatbinary", f"--create={tmp_path / 'out'}", option, check=False).returncode
    with pytest.raises(UsageError, match="states no version"):
        written([ptx("80", text.encode())])


def _agrees(folder: Path, data: bytes) -> None:
    """Check that cuobjdump shows the same facts of every entry as fatpack, and extracts the same bytes."""
    folder.mkdir(exist_ok=True)
    (folder / "a.fatbin").write_bytes(data)
    cuobjdump.check(folder / "a.fatbin", folder / "extracted")


@pytest.mark.parametrize("mode", ["default", "speed", "balance", "size", "none"])
@pytest.mark.parametrize("style", ["12.8", "13.0", "13.5"])
def test_cuobjdump_reads_every_mode_of_every_producer(style: str, mode: str, tmp_path: Path) -> None:
    images = [*SETS["plain"](), *SETS["family"](), ltoir().replace(attrs={})]
    _agrees(tmp_path, written(images, producer=style, compress_mode=mode, compress_all=True))


def test_cuobjdump_reads_groups_and_labels(tmp_path: Path) -> None:
    images = [*SETS["plain"](), *SETS["family"]()]
    _agrees(tmp_path, written(images, producer="13.5", concat=True))
    labels = {"identifier": "a b/c.cu", "debug": "yes", "host": "windows", "options": "-O1 -v"}
    _agrees(tmp_path / "labels", written(_labelled(images, labels), producer="13.5"))


def test_cuobjdump_reads_what_was_copied_from_many_fat_binaries(tmp_path: Path) -> None:
    paths = [*RECORDED.glob("*.fatbin"), *RECORDED.glob("recorded/*.fatbin")]
    images = [item for path in sorted(paths) for item in parse(make_view(path.read_bytes())).images]
    data = written(images)
    again = parse(make_view(data)).images
    assert [item.target for item in again] == [item.target for item in images]
    _agrees(tmp_path, data)


@pytest.mark.parametrize("count", [0, 15, 16, 64])
def test_cuobjdump_refuses_the_zeros_that_are_reported(count: int, tmp_path: Path) -> None:
    data = written([cubin("80")]) + bytes(count)
    (tmp_path / "a.fatbin").write_bytes(data)
    is_refused = reference.run("cuobjdump", "-lelf", tmp_path / "a.fatbin", check=False).returncode != 0
    assert is_refused == any(not isinstance(item, FoundContainer) for item in scan(make_view(data)))


@pytest.mark.parametrize("path", sorted(RECORDED.rglob("*.fatbin")), ids=lambda path: path.name)
def test_cuobjdump_says_the_same_of_recorded_files(path: Path, tmp_path: Path) -> None:
    if path.name != "two_fatbins.fatbin":
        _agrees(tmp_path, path.read_bytes())
