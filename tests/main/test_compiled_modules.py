"""The finder that opens compiled modules of fatpack by their paths: it finds what the interpreter's own one does."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from shutil import copytree

import pytest

import fatpack
from fatpack.main import _CompiledModules, _open_compiled_modules

FINDER = _CompiledModules()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a module and a package, both compiled."""
    (tmp_path / "package").mkdir()
    for name in ("module.py", "package/__init__.py"):
        (tmp_path / name).write_text("VALUE = 1\n")
        py_compile.compile(
            str(tmp_path / name), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP
        )
    return tmp_path


def found(name: str, folder: Path) -> ModuleSpec | None:
    return FINDER.find_spec(f"fatpack.{name}", [str(folder)])


@pytest.mark.parametrize("name", ["module", "package"])
def test_modules_are_those_of_the_usual_finder(name: str, folder: Path) -> None:
    ours, usual = found(name, folder), PathFinder.find_spec(f"fatpack.{name}", [str(folder)])
    assert ours is not None
    assert usual is not None
    for attribute in ("name", "origin", "cached", "has_location", "parent", "submodule_search_locations"):
        assert getattr(ours, attribute) == getattr(usual, attribute), attribute
    assert ours.loader is not None
    modules = [module_from_spec(spec) for spec in (ours, usual)]
    for attribute in ("__file__", "__cached__", "__package__", "__doc__", "__path__"):
        assert getattr(modules[0], attribute, None) == getattr(modules[1], attribute, None), attribute
    ours.loader.exec_module(modules[0])
    assert modules[0].VALUE == 1
    assert ours.loader.get_source(ours.name) == "VALUE = 1\n"  # type: ignore[attr-defined]
    assert ours.loader.is_package(ours.name) is (name == "package")  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["module", "package"])
def test_changed_sources_are_left_to_the_usual_finder(name: str, folder: Path) -> None:
    source = folder / ("module.py" if name == "module" else "package/__init__.py")
    facts = source.stat()
    source.write_text("VALUE = 22\n")
    os.utime(source, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert found(name, folder) is None, "another size"
    source.write_text("VALUE = 2\n")
    os.utime(source, (facts.st_atime, facts.st_mtime + 9))
    assert found(name, folder) is None, "another time"
    source.unlink()
    assert found(name, folder) is None, "no source"


def test_what_else_is_left_to_the_usual_finder(folder: Path) -> None:
    assert FINDER.find_spec("fatpack", None) is None
    assert FINDER.find_spec("other.module", [str(folder)]) is None
    assert found("missing", folder) is None
    (compiled,) = (folder / "__pycache__").glob("module.*")
    whole = compiled.read_bytes()
    for damaged in (b"", whole[:15], b"\0" + whole[1:], whole[:4] + b"\1" + whole[5:]):
        compiled.write_bytes(damaged)
        assert found("module", folder) is None, "cut, of another Python, or checked by the hash of its source"


def test_modules_compiled_in_another_folder_name_their_own_source(folder: Path) -> None:
    copytree(folder / "package", folder / "moved")  # with times: what was compiled is still valid
    spec = found("moved", folder)
    assert spec is not None
    assert spec.loader is not None
    code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    assert code.co_filename == spec.origin == str(folder / "moved" / "__init__.py")


def test_hooks_of_others_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = object()
    usual: list[object] = [BuiltinImporter, FrozenImporter, PathFinder]
    monkeypatch.setattr(sys, "meta_path", [hook, *usual])
    _open_compiled_modules()
    assert sys.meta_path[0] is hook
    assert isinstance(sys.meta_path[1], _CompiledModules)
    assert list[object](sys.meta_path[2:]) == usual


def test_an_interpreter_with_another_finder_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [BuiltinImporter, object()])
    _open_compiled_modules()
    assert len(sys.meta_path) == 2


PROGRAM = (
    "import atexit, sys; from fatpack.main import main; sys.argv[1:] = ['tool', 'fatbinary', '--version']\n"
    "atexit.register(lambda: print(*(type(finder).__name__ for finder in sys.meta_path)))\n"
    "sys.exit(main())"
)


@pytest.mark.parametrize(("options", "opens"), [([], True), (["-O"], False), (["-X", "pycache_prefix=x"], False)])
def test_a_process_of_fatpack_opens_them(options: list[str], opens: bool, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPATH"] = str(Path(fatpack.__file__).parents[1])
    command = [sys.executable, *options, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    version, finders = done.stdout.splitlines()
    assert version.startswith("fatbinary: fatpack ")
    assert ("_CompiledModules" in finders.split()) is opens
