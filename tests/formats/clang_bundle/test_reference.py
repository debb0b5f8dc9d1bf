"""Writers and readers against clang-offload-bundler 22."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import zstandard
from tests import reference

from fatpack.formats import clang_bundle
from fatpack.formats.clang_bundle.bundle_id import conflict_llvm22, stored_by_llvm22, stored_id
from fatpack.formats.clang_bundle.layout import COMMENTS, COMPRESSED_HEADERS
from fatpack.formats.clang_bundle.text_reader import positions_in_llvm_order
from fatpack.io.source import Span
from fatpack.model import Container
from fatpack.testing.helpers import join_pieces, make_image, make_view
from fatpack.writer_options import BundleOptions

pytestmark = pytest.mark.reference

BUNDLER = "clang-offload-bundler"
HOST = "host-x86_64-unknown-linux-gnu"
TYPES = [(name, comment) for comment, names in COMMENTS.items() for name in names]


def model(ids: Sequence[str], images: Sequence[bytes], version: int = 0, **attrs: str) -> Container:
    stored = (make_image(data, attrs={"id": spelling}) for spelling, data in zip(ids, images, strict=True))
    return Container("clang-offload-bundle", version, tuple(stored), Span(0, 0), attrs=attrs)


def written(ids: Sequence[str], images: Sequence[bytes], version: int = 0, **attrs: str) -> bytes:
    return join_pieces(clang_bundle.write(model(ids, images, version, **attrs)))


def bundled(folder: Path, targets: Sequence[str], images: Sequence[bytes], *options: str, type: str = "bc") -> bytes:
    """Return the tool's bundle."""
    inputs = []
    for number, data in enumerate(images):
        (folder / f"in{number}").write_bytes(data)
        inputs.append(f"-input={folder / f'in{number}'}")
    target_list = f"-targets={','.join(targets)}"
    reference.run(BUNDLER, f"-type={type}", target_list, *inputs, f"-output={folder / 'out'}", *options)
    return (folder / "out").read_bytes()


def unbundled(folder: Path, data: bytes, targets: Sequence[str], type: str = "bc") -> list[bytes]:
    """Return the images that the tool extracts from a bundle for these targets."""
    (folder / "bundle").write_bytes(data)
    outputs = [folder / f"out{number}" for number in range(len(targets))]
    names = [f"-output={output}" for output in outputs]
    reference.run(
        BUNDLER, f"-type={type}", "-unbundle", f"-targets={','.join(targets)}", f"-input={folder / 'bundle'}", *names
    )
    return [output.read_bytes() for output in outputs]


def tool_list(folder: Path, data: bytes, type: str = "bc") -> list[str]:
    (folder / "bundle").write_bytes(data)
    return reference.run(BUNDLER, f"-type={type}", "-list", f"-input={folder / 'bundle'}").stdout.decode().split()


def random_targets(rng: random.Random, count: int) -> list[str]:
    """Return targets that have different IDs and do not conflict, one of them the host's."""
    processors = ["gfx906", "gfx90a", "gfx1030", "gfx1100", "gfx9-4-generic", "sm_70", "sm_90a", "generic"]
    found = {stored_by_llvm22(HOST): HOST}
    while len(found) < count:
        processor = rng.choice(processors)
        if processor == "gfx90a":
            processor += rng.choice([":xnack-", ":xnack+"])
        triple = rng.choice(["amdgcn-amd-amdhsa-", "nvptx64-nvidia-cuda-", "spirv64-amd-amdhsa-unknown"])
        target = f"{rng.choice(['hip', 'hipv4', 'openmp'])}-{triple}-{processor}"
        found[stored_by_llvm22(target)] = target
    targets = list(found.values())
    rng.shuffle(targets)
    assert conflict_llvm22(targets) is None
    return targets


@pytest.mark.parametrize("seed", range(25))
def test_binary_bundles_are_byte_identical(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    targets = random_targets(rng, rng.randint(1, 9))
    images = [rng.randbytes(rng.choice([0, 0, 1, 5, 100, 5000])) for _ in targets]
    align = rng.choice([1, 2, 3, 7, 64, 100, 4096])
    theirs = bundled(tmp_path, targets, images, f"-bundle-align={align}")
    ids = [stored_id(target) for target in targets]
    assert written(ids, images, align=str(align)) == theirs
    parsed = clang_bundle.parse(make_view(theirs), strict=True)
    assert parsed.findings == ()
    assert [item.data.tobytes() for item in parsed.images] == images
    assert join_pieces(clang_bundle.write(parsed.replace(record=None))) == theirs
    assert tool_list(tmp_path, theirs) == [
        ids[at] for at in positions_in_llvm_order([spelling.encode() for spelling in ids])
    ]


@pytest.mark.parametrize("count", [1, 12, 13, 14, 24, 25, 26, 60])
def test_the_list_is_in_the_order_of_llvms_map_however_large(count: int, tmp_path: Path) -> None:
    rng = random.Random(count)
    ids = [f"hip-amdgcn-amd-amdhsa--gfx906:{rng.randbytes(rng.randint(0, 99)).hex()}" for _ in range(count)]
    order = positions_in_llvm_order([spelling.encode() for spelling in ids])
    assert tool_list(tmp_path, written(ids, [b"x"] * count)) == [ids[at] for at in order]


def test_of_entries_with_one_id_the_tool_lists_the_last(tmp_path: Path) -> None:
    parsed = clang_bundle.parse(
        make_view(written(["hip-amdgcn-amd-amdhsa--gfx906", HOST + "-"], [b"first", b"second"]))
    )
    twice = parsed.replace(images=(*parsed.images, parsed.images[0].replace(data=make_view(b"third"))))
    data = join_pieces(clang_bundle.write(twice))
    ids = [item.attrs["id"] for item in clang_bundle.parse(make_view(data)).images]
    assert tool_list(tmp_path, data) == [
        ids[at] for at in positions_in_llvm_order([spelling.encode() for spelling in ids])
    ]
    assert positions_in_llvm_order([spelling.encode() for spelling in ids]).count(2) == 1
    (got,) = unbundled(tmp_path, data, ["hip-amdgcn-amd-amdhsa--gfx906"])
    assert got == b"third"


def test_the_tool_takes_out_what_we_put_in(tmp_path: Path) -> None:
    rng = random.Random(3)
    targets = [target for target in random_targets(rng, 8) if "hip" not in target]
    images = [rng.randbytes(rng.randint(0, 500)) for _ in targets]
    for attrs in ({"align": "64"}, {"compression": "zstd"}):
        data = written([stored_id(target) for target in targets], images, 3 if "compression" in attrs else 0, **attrs)
        assert unbundled(tmp_path, data, targets) == images


@pytest.mark.parametrize(("type", "comment"), TYPES)
def test_text_bundles_are_byte_identical_and_come_apart_alike(type: str, comment: str, tmp_path: Path) -> None:
    targets = [HOST, "hip-amdgcn-amd-amdhsa--gfx906", "openmp-nvptx64-nvidia-cuda--sm_70"]
    images = [b"line\nno newline", b"", b"\nwith newlines\n\n"]
    theirs = bundled(tmp_path, targets, images, type=type)
    ours = written([stored_id(target) for target in targets], images, flavour="text", comment=comment)
    assert ours == theirs
    parsed = clang_bundle.parse(make_view(theirs), strict=True)
    assert [item.data.tobytes() for item in parsed.images] == images
    assert parsed.findings == ()
    assert parsed.attrs == {"flavour": "text", "comment": comment}
    assert join_pieces(clang_bundle.write(parsed.replace(record=None))) == theirs
    assert tool_list(tmp_path, ours, type) == [item.attrs["id"] for item in parsed.images]
    assert unbundled(tmp_path, ours, targets, type) == images


def libzstd_of_the_tool() -> tuple[int, ...]:
    """Return the version of the zstd library that the tool is linked with; () if it cannot be determined."""
    linked = reference.run("ldd", reference.tool(BUNDLER)).stdout.decode()
    paths = [line.split()[2] for line in linked.splitlines() if "libzstd.so" in line]
    name = os.path.basename(os.path.realpath(paths[0])) if paths else ""
    return tuple(int(part) for part in name.partition(".so.")[2].split(".") if part.isdigit())


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("level", [None, -1, 0, 1, 9, 19, 22, 30])
def test_compressed_bundles_are_those_of_the_tool(
    version: int, level: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPRESSED_BUNDLE_FORMAT_VERSION", str(version))
    rng = random.Random(level)
    block = rng.randbytes(3000)
    images = [b"", block * 30 + rng.randbytes(40_000), bytes(100_000) + block * 5]
    targets = [HOST, "hipv4-amdgcn-amd-amdhsa--gfx906", "hipv4-amdgcn-amd-amdhsa--gfx90a"]
    options = ["-compress", "-bundle-align=4096"] + ([] if level is None else [f"-compression-level={level}"])
    theirs = bundled(tmp_path, targets, images, *options)
    ids = [stored_id(target) for target in targets]
    chosen = BundleOptions(align=4096, compression="zstd", level=level)
    ours = join_pieces(clang_bundle.write(model(ids, images, version), chosen))
    if libzstd_of_the_tool() == zstandard.ZSTD_VERSION:
        assert ours == theirs
    layout = COMPRESSED_HEADERS[version]
    mine, their_fields = layout.read(make_view(ours), 0), layout.read(make_view(theirs), 0)
    assert [*mine[:3], *mine[4:]] == [*their_fields[:3], *their_fields[4:]]  # everything except the total size
    assert mine[3] == len(ours)
    plain = written(ids, images, align="4096")
    for data in (ours, theirs):
        parsed = clang_bundle.parse(make_view(data), strict=True)
        assert parsed.findings == ()
        assert parsed.record.inside.stored.tobytes() == plain  # type: ignore[attr-defined]
        assert join_pieces(clang_bundle.write(parsed)) == data
    assert sorted(tool_list(tmp_path, ours)) == sorted(ids)
    assert unbundled(tmp_path, ours, targets[1:2]) == images[1:2]
    assert abs(len(ours) - len(theirs)) < len(theirs) / 20


@pytest.mark.parametrize("method", ["zlib", "zstd"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_tool_reads_every_version_and_method_that_fatpack_writes(method: str, version: int, tmp_path: Path) -> None:
    data = written([f"{HOST}-", "hip-amdgcn-amd-amdhsa--gfx906"], [b"", b"device" * 99], version, compression=method)
    assert len(tool_list(tmp_path, data)) == 2
    assert unbundled(tmp_path, data, ["hip-amdgcn-amd-amdhsa--gfx906"]) == [b"device" * 99]


def test_a_compressed_text_bundle_is_that_of_the_tool(tmp_path: Path) -> None:
    targets, images = [HOST, "hip-amdgcn-amd-amdhsa--gfx906"], [b"host\n", b"device\n"]
    theirs = bundled(tmp_path, targets, images, "-compress", type="s")
    ids = [stored_id(target) for target in targets]
    ours = written(ids, images, 3, compression="zstd", inside="text", comment="#")
    parsed = clang_bundle.parse(make_view(theirs))
    assert [item.data.tobytes() for item in parsed.images] == images
    assert parsed.record.inside.stored.tobytes() == clang_bundle.parse(make_view(ours)).record.inside.stored.tobytes()  # type: ignore[attr-defined]
    assert unbundled(tmp_path, ours, targets, "s") == images


def test_what_the_tool_accepts_of_odd_streams_we_read_too(tmp_path: Path) -> None:
    """Both accept several frames and skippable ones; wrong sizes and hashes are findings here, and ignored there."""
    plain = written(["hip-amdgcn-amd-amdhsa--gfx906"], [b"device" * 500])
    skippable = b"\x5a\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"skip!"
    stream = skippable + zstandard.compress(plain[:100]) + skippable + zstandard.compress(plain[100:])
    for size, inflated, stored_hash in ((32 + len(stream), len(plain), bytes(8)), (7, len(plain) + 9, b"\1" * 8)):
        data = COMPRESSED_HEADERS[3].pack(b"CCOB", 3, 1, size, inflated, stored_hash) + stream
        assert tool_list(tmp_path, data) == ["hip-amdgcn-amd-amdhsa--gfx906"]
        assert clang_bundle.parse(make_view(data)).images[0].data.tobytes() == b"device" * 500


def test_the_tool_crashes_on_the_short_files_of_llvm_16_and_we_list_them(tmp_path: Path) -> None:
    data = bundled(tmp_path, ["openmp-nvptx64-nvidia-cuda--sm_70", HOST], [b"cubin", b""], "-bundle-align=64")
    short = data.rstrip(b"\0")
    (tmp_path / "bundle").write_bytes(short)
    assert reference.run(BUNDLER, "-type=bc", "-list", f"-input={tmp_path / 'bundle'}", check=False).returncode < 0
    parsed = clang_bundle.parse(make_view(short), strict=True)
    assert [item.size for item in parsed.images] == [5, 0]
    assert [finding.code for finding in parsed.findings] == ["FP1309"]
