"""Large compressed bundles on the command line: listed by their tables, inflated and checked when that is asked for."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack import codecs, limits
from fatpack.formats import clang_bundle
from fatpack.formats.clang_bundle import compressed
from fatpack.formats.clang_bundle.layout import COMPRESSED_HEADERS
from fatpack.io.source import Span
from fatpack.model import Container, Image
from fatpack.testing.helpers import join_pieces, make_image, make_view

Fatpack = Callable[..., Ran]

ARCHS = ("gfx1100", "gfx90a", "gfx942")
SIZE = 150_000


def code_object() -> bytes:
    """Return the gfx90a image of a HIP object, with a kernel in it."""
    with library.open(FIXTURES / "elf" / "clang-22-hip.o") as file:
        return next(item.data.tobytes() for item in file.images() if item.target.arch == "gfx90a")


@cache
def images() -> list[Image]:
    rng = random.Random(1)
    contents = [code_object() + bytes(rng.choices(range(30), k=SIZE)) for _ in ARCHS]
    ids = [f"hipv4-amdgcn-amd-amdhsa--{arch}" for arch in ARCHS]
    return [make_image(content, attrs={"id": spelling}) for content, spelling in zip(contents, ids, strict=True)]


@pytest.fixture
def bundle(folder: Path) -> bytearray:
    """A compressed bundle of three code objects, in lib.hipfb."""
    (folder / "lib.hipfb").write_bytes(packed())
    return bytearray(packed())


@cache
def packed() -> bytes:
    host = make_image(b"", attrs={"id": "host-x86_64-unknown-linux-gnu-"})
    model = Container("", 3, (host, *images()), Span(0, 0), attrs={"compression": "zstd", "align": "4096"})
    return join_pieces(clang_bundle.write(model))


def with_wrong_hash(data: bytearray) -> bytes:
    data[COMPRESSED_HEADERS[3].field_offset("hash")] ^= 1
    return bytes(data)


@cache
def with_damage() -> bytes:
    """Return the bundle with a stream that is damaged in the last of its images, and only there."""
    data, damage = packed(), bytes([0xFF]) * 100  # less of it gives other bytes more often than an error
    for at in range(len(data) - 500, len(data) * 3 // 4, -500):
        damaged = data[:at] + damage + data[at + len(damage) :]
        try:
            container = clang_bundle.parse(make_view(damaged))
            container.images[2].data.tobytes()
        except library.FormatError:
            continue
        try:
            container.images[3].data.tobytes()
        except library.FormatError:
            return damaged
    raise AssertionError("no such byte")


@pytest.mark.usefixtures("bundle")
def test_the_plain_listing_is_the_table(fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    inflated: list[int] = []
    real = codecs.inflate_pieces

    def counting(*arguments: object, **options: object) -> object:
        for piece in real(*arguments, **options):  # type: ignore[arg-type]
            inflated.append(len(piece))
            yield piece

    monkeypatch.setattr(compressed, "inflate_pieces", counting)
    ran = fatpack("inspect", "lib.hipfb")
    assert ran.code == 0
    assert "4 images, zstd (--inflate looks inside)" in ran.out
    rows = [line.split() for line in ran.out.splitlines()[2:]]
    assert [row[:5] for row in rows] == [
        ["0.0", "host", "x86_64-unknown-linux-gnu", "-", "empty"],
        *(["0." + str(n), "hip", "amdgcn-amd-amdhsa", arch, "-"] for n, arch in enumerate(ARCHS, 1)),
    ]
    assert sum(inflated) < 10_000


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize("option", ["--inflate", "--kernels", "--verify", "--one-program"])
def test_options_that_need_the_images_look_at_them(fatpack: Fatpack, option: str) -> None:
    ran = fatpack("inspect", option, "lib.hipfb")
    assert ran.code == 1  # two of the code objects are not for the processor they are stored for
    assert ran.out.count("code-object") == 3
    assert ran.out.count("FP1102") == 2
    assert "looks inside" not in ran.out


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize(("reading", "code"), [((), 0), (("--inflate",), 1), (("--kernels",), 1)])
def test_the_exit_code_follows_from_what_is_read_and_not_from_how_it_is_shown(
    fatpack: Fatpack, reading: tuple[str, ...], code: int
) -> None:
    shown = ((), ("-v",), ("-vv",), ("--json",), ("-v", "--json"))
    assert [fatpack("inspect", *reading, *how, "lib.hipfb").code for how in shown] == [code] * len(shown)


@pytest.mark.usefixtures("bundle")
def test_json_has_the_kernels_of_what_is_inflated(fatpack: Fatpack) -> None:
    document = json.loads(fatpack("inspect", "--json", "lib.hipfb").out)
    (record,) = document["files"]
    assert record["containers"][0]["is_inflated"] is False
    jsonschema.validate(document, json.loads(fatpack("inspect", "--schema").out))
    (record,) = json.loads(fatpack("inspect", "--json", "--inflate", "lib.hipfb").out)["files"]
    (container,) = record["containers"]
    assert "is_inflated" not in container
    assert [item["form"] for item in container["images"]] == ["empty", *["code-object"] * 3]
    assert [item["kernels"] for item in container["images"]] == [[], *[["_Z5kern1Pii"]] * 3]


def test_a_wrong_hash_is_found_by_verify_and_by_extract(folder: Path, bundle: bytearray, fatpack: Fatpack) -> None:
    (folder / "lib.hipfb").write_bytes(with_wrong_hash(bundle))
    assert fatpack("inspect", "lib.hipfb").code == 0
    assert "FP1304" not in fatpack("inspect", "-v", "lib.hipfb").out
    ran = fatpack("inspect", "--verify", "lib.hipfb")
    assert ran.code == 3
    assert "error FP1304 at 0x18: the hash is" in ran.out
    for options in (["-d", "out"], ["--arch", "gfx90a", "-o", "one"], ["--archive", "-o", "all.a"]):
        ran = fatpack("extract", "lib.hipfb", *options)
        assert ran.code == 3, options
        assert "fatpack: error FP1304: lib.hipfb at 0x18: the hash is" in ran.err
    assert (folder / "one").read_bytes() == images()[1].data.tobytes()
    assert len(list((folder / "out").iterdir())) == 4
    # As they are stored they are copied, and nothing is inflated.
    assert fatpack("extract", "lib.hipfb", "--containers", "-d", "whole").code == 0
    with library.open(folder / "lib.hipfb") as file:
        assert file.findings == ()
        assert [item.code for item in file.verify()] == ["FP1304"]


@pytest.mark.usefixtures("bundle")
def test_a_sound_bundle_is_extracted_without_a_word(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("extract", "lib.hipfb", "-d", "out", "-q")
    assert (ran.code, ran.err) == (0, "")
    found = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    assert [found[f"lib-amdgcn-amd-amdhsa-{arch}.{n}.hsaco"] for n, arch in enumerate(ARCHS, 1)] == [
        item.data.tobytes() for item in images()
    ]
    with library.open(folder / "lib.hipfb") as file:
        assert file.verify() == ()


def test_what_lies_before_damage_is_extracted(folder: Path, fatpack: Fatpack) -> None:
    (folder / "lib.hipfb").write_bytes(with_damage())
    assert fatpack("inspect", "lib.hipfb").code == 0
    ran = fatpack("inspect", "--verify", "lib.hipfb")
    assert ran.code == 3
    assert "error FP1001" in ran.out
    assert "zstd stream is damaged" in ran.out
    ran = fatpack("extract", "lib.hipfb", "-d", "out")
    assert ran.code == 3
    assert "error FP1001: lib.hipfb: 0.3 hip amdgcn-amd-amdhsa gfx942" in ran.err
    assert len(ran.out.splitlines()) == 3
    found = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    assert len(found) == 3
    assert found["lib-amdgcn-amd-amdhsa-gfx90a.2.hsaco"] == images()[1].data.tobytes()
    assert fatpack("extract", "lib.hipfb", "--index", "3", "-o", "one").code == 3
    assert not (folder / "one").exists()


def unbundle(fatpack: Fatpack, *archs: str) -> Ran:
    targets = ",".join(f"hipv4-amdgcn-amd-amdhsa--{arch}" for arch in archs)
    outputs = [f"-output={arch}.out" for arch in archs]
    return fatpack(
        "tool", "clang-offload-bundler", "-unbundle", "-type=o", "-input=lib.hipfb", f"-targets={targets}", *outputs
    )


@pytest.mark.usefixtures("bundle")
def test_the_bundler_inflates_a_stream_once_whatever_is_asked_for(
    folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INFLATED_KEPT", 10_000)
    starts: list[int] = []
    real = compressed.inflate_pieces
    monkeypatch.setattr(compressed, "inflate_pieces", lambda *words, **more: starts.append(1) or real(*words, **more))
    ran = unbundle(fatpack, *reversed(ARCHS))
    assert (ran.code, ran.err) == (0, "")
    for arch, item in zip(ARCHS, images(), strict=True):
        assert (folder / f"{arch}.out").read_bytes() == item.data.tobytes()
    assert len(starts) == 1


def test_the_bundler_writes_nothing_of_a_damaged_stream(folder: Path, fatpack: Fatpack) -> None:
    (folder / "lib.hipfb").write_bytes(with_damage())
    ran = unbundle(fatpack, *ARCHS)
    assert ran.code == 1
    assert ran.err.startswith(
        "clang-offload-bundler: error: Failed to decompress input: Could not decompress embedded file contents: "
        "compressed data: zstd stream is damaged: "
    )
    assert not list(folder.glob("*.out"))
    assert unbundle(fatpack, *ARCHS[:2]).code == 0
