"""An image of a CIR container is the module that ``extract`` writes: for library, addresses, digests and ``map``."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.cir import HOST, SM_80, SM_90, combined
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

import fatpack as library

Fatpack = Callable[..., Ran]
SAMPLES = FIXTURES / "cir" / "samples"
ALIASES = (
    '!s = !cir.int<s, 32>\n#l = loc("k.cu":1:1)\n'
    'module attributes {cir.triple = "nvptx64-nvidia-cuda"} {\n'
    "  cir.func @k(%a: !s) cc(ptx_kernel) {\n    cir.return loc(#l)\n  }\n}\n"
)
PLAIN = 'module attributes {cir.triple = "nvptx64-nvidia-cuda"} {\n  cir.func @p() {\n    cir.return\n  }\n}\n'
CONTAINERS = {
    "aliases": combined((PLAIN, HOST), (ALIASES, SM_80), (PLAIN, SM_90)),
    **{path.name: path.read_bytes() for path in sorted(SAMPLES.iterdir()) if path.name.startswith("container_")},
}
CONTAINERS = {name: data for name, data in CONTAINERS.items() if not name.endswith(".json")}


@pytest.fixture(params=CONTAINERS)
def container(request: pytest.FixtureRequest, folder: Path) -> Path:
    path = folder / "k.cir"
    path.write_bytes(CONTAINERS[request.param])
    return path


def extracted(fatpack: Fatpack, path: Path) -> list[bytes]:
    """Return what ``extract`` writes of every image."""
    with library.open(path) as file:
        count = len(file.containers[0].images)
    for index in range(count):
        assert fatpack("extract", path, "--container=0", "--index", index, "-o", f"{index}.out").code == 0
    return [Path(f"{index}.out").read_bytes() for index in range(count)]


def test_an_image_is_what_extract_writes(container: Path, fatpack: Fatpack) -> None:
    written = extracted(fatpack, container)
    with library.open(container) as file:
        images = file.containers[0].images
        assert [image.data.tobytes() for image in images] == written
        assert [image.size for image in images] == list(map(len, written))


def test_digests_are_of_what_extract_writes(container: Path, fatpack: Fatpack) -> None:
    written = extracted(fatpack, container)
    rows = map(json.loads, fatpack("inspect", "--rows=jsonl", "--digests", container).out.splitlines())
    digests = [row["sha256"] for row in rows if row["row"] == "image"]
    assert digests == [hashlib.sha256(data).hexdigest() for data in written]


def test_an_offset_that_is_reported_leads_to_what_extract_writes(container: Path, fatpack: Fatpack) -> None:
    written = extracted(fatpack, container)
    record = json.loads(fatpack("inspect", "--json", container).out)
    images = record["files"][0]["containers"][0]["images"] if "files" in record else record["containers"][0]["images"]
    for index, image in enumerate(images):
        if image["offset"] is not None:
            address = f"{container}#offset={image['offset']}&size={image['size']}"
            assert fatpack("extract", address, "-fo", "part").code == 0
            assert Path("part").read_bytes() == written[index]


@pytest.mark.parametrize("name", [name for name in CONTAINERS if not name.endswith(".mlirbc")])
def test_modules_that_are_mapped_to_themselves_change_nothing(name: str) -> None:
    data = CONTAINERS[name]
    output = io.BytesIO()
    library.map_images(data, lambda image: image.data.tobytes(), output)
    assert output.getvalue() == data


def test_a_module_that_cannot_be_split_off_is_damage_to_all(folder: Path, fatpack: Fatpack) -> None:
    Path("k.cir").write_bytes(CONTAINERS["aliases"].replace(b"!s = !cir.int<s, 32>\n", b""))
    for command in (("inspect",), ("doctor",), ("extract", "-d", "out")):
        ran = fatpack(command[0], "k.cir", *command[1:])
        assert ran.code == 3, command
        assert "alias !s is used but not defined" in ran.out + ran.err


def test_an_unread_image_is_combined_unchanged() -> None:
    with library.open(CONTAINERS["aliases"]) as file:
        output = io.BytesIO()
        assert all(len(image.data) == image.size for image in file.containers[0].images)
        library.convert(file.images(), output, format="cir")
        assert output.getvalue() == CONTAINERS["aliases"]
