"""The interface of an editable host is complete, and its modules are loaded on first use."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builders import elf as build

from fatpack import binary
from fatpack.binary import elf

OBJECT = Path(__file__).parents[2] / "fixtures" / "elf" / "clang-22-hip.o"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("detect", ["view"]),
        ("locate", ["view"]),
        ("labels", ["view"]),
        ("embed", ["view", "content"]),
        ("replace", ["view", "index", "content"]),
        ("remove", ["view", "indices"]),
        ("verify", ["before", "after"]),
    ],
)
def test_the_door_is_that_of_an_editable_host(name: str, parameters: list[str]) -> None:
    signature = inspect.signature(getattr(elf, name))
    needed = [each.name for each in signature.parameters.values() if each.default is each.empty]
    assert needed == parameters


def test_the_room_is_registered_under_its_name() -> None:
    assert binary.get_host("elf") is elf
    assert elf.DOC.name == "elf"
    assert elf.DOC.limitations


def test_functions_stay_functions_after_their_modules_were_loaded() -> None:
    """A module of the same name as a function would replace it in the package when it is first imported."""
    data = build.device_object().build()
    for _ in range(2):
        view = build.as_view(data)
        list(elf.locate(view))
        list(elf.labels(view))
        elf.verify(view, build.as_view(build.as_bytes(elf.embed(view, [b"x"]))))
        elf.replace(view, 2, [b"x"])
        elf.remove(view, [2])
        elf.edit(view, {2: None})
        elf.embed_sections(view, [])


def test_looking_for_device_code_loads_no_editor() -> None:
    program = (
        "import sys; sys.path[:0] = {path!r}\n"
        "from fatpack.binary import elf\nfrom fatpack.io.open import open_source\n"
        "assert list(elf.locate(open_source({file!r}).view()))\nprint('\\n'.join(sys.modules))"
    )
    command = [sys.executable, "-I", "-c", program.format(path=sys.path, file=str(OBJECT))]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "fatpack.binary.elf.device_sections" in loaded
    assert not {name for name in loaded if name.startswith(("fatpack.binary.elf.editor", "fatpack.binary.elf.objcopy"))}
    assert "fatpack.binary.elf.byte_labels" not in loaded
    assert not {"enum", "re", "typing", "dataclasses", "pathlib", "elftools", "lief"} & loaded
