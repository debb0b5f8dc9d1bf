"""The reading of imports, on a small package: so ``test_imports.py`` can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.laws import house

SMALL = {
    "__init__.py": "",
    "io/__init__.py": "from fatpack.io.limits import MOST",
    "io/limits.py": "MOST = 1",
    "ops/__init__.py": '"""Verbs.\n\nMore."""',
    "ops/pack/__init__.py": "",
    "ops/pack/write.py": "def run():\n    from fatpack.ops import verify\n    import fatpack.io.limits",
    "ops/verify.py": "def run():\n    from fatpack.ops.pack.write import run\nimport io, os",
    "ops/notes.py": "if TYPE_CHECKING:\n    from fatpack.ops.pack.write import run\nelse:\n    import fatpack.io",
    "ops/edit.py": "from fatpack import io, __version__\nfrom fatpack.io import limits as l, MOST",
}


@pytest.fixture
def every(tmp_path: Path) -> dict[str, house.Module]:
    for name, text in SMALL.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return house.modules(tmp_path)


def test_an_import_counts_if_it_can_run(every: dict[str, house.Module]) -> None:
    assert sorted(every) == sorted(name.removesuffix(".py") for name in SMALL if name != "__init__.py")
    assert every["io/__init__"].imports == {"io/limits"}
    assert every["ops/pack/write"].imports == {"ops/verify", "io/limits"}
    assert every["ops/verify"].imports == {"ops/pack/write"}
    assert every["ops/notes"].imports == {"io/__init__"}
    assert every["ops/edit"].imports == {"io/__init__", "io/limits"}


def test_a_circle_between_a_folder_and_a_module_is_seen(every: dict[str, house.Module]) -> None:
    graph = house.parts_of("ops", every)
    assert graph == {
        "ops/__init__": set(),
        "ops/edit": set(),
        "ops/notes": set(),
        "ops/pack": {"ops/verify"},
        "ops/verify": {"ops/pack"},
    }
    around = house.circle(graph)
    assert around == ["ops/pack", "ops/verify", "ops/pack"]
    assert house.names(around) == ["pack", "verify", "pack"]
    assert house.arrows(around, every) == [
        "  ops/pack/write.py imports ops/verify.py",
        "  ops/verify.py imports ops/pack/write.py",
    ]
    assert house.circle(house.parts_of("io", every)) == []


def test_the_shortest_circle_is_shown() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"c"}}
    assert house.circle(graph) == ["c", "d", "c"]


def test_the_lowest_comes_first() -> None:
    assert house.lowest_first({"a": {"c"}, "b": set(), "c": {"b", "elsewhere"}}) == ["b", "c", "a"]


def test_small_modules_are_found(tmp_path: Path) -> None:
    body = "def run():\n" + "    x = 1  # why\n\n" * 40
    texts = {
        "a/__init__.py": "from fatpack.a.door import run",
        "a/door.py": "def go():\n    from fatpack.a import small, table, large, twice\n" + "    go()\n" * 90,
        "a/small.py": f'"""Text.\n\n{"More. " * 9}"""\n{body}',
        "a/table.py": "X = [\n" + "1,\n" * 30 + "]",
        "a/large.py": "def run():\n" + "    x = (\n1\n)\n" * 40,
        "a/twice.py": body,
        "b/other.py": "from fatpack.a import twice\nfrom fatpack.b import shown",
        "b/shown.py": "if TYPE_CHECKING:\n    from fatpack.b.other import X\n" + body,
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    every = house.modules(tmp_path)
    assert (every["a/small"].lines, every["a/large"].lines, every["a/table"].is_table) == (41, 121, True)
    assert house.small_modules(every) == [("a/small", "a/door"), ("b/shown", "b/other")]


def test_folders_and_rooms(every: dict[str, house.Module]) -> None:
    assert house.folders(every) == ["io", "ops", "ops/pack"]
    assert (every["ops/pack/write"].folder, every["ops/pack/write"].room) == ("ops/pack", "ops")
    assert every["ops/__init__"].docstring.startswith("Verbs.")
