"""Files that go into one program are compared by what their device code is for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

from fatpack.commands.inspect.run import add_differences
from fatpack.main import main

HOSTS = FIXTURES / "cuda_fatbin" / "hosts"
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    for name in ("k1.rdc.o", "main.rdc.o", "single.o", "clang_min.o"):
        shutil.copy(HOSTS / name, name)
    shutil.copy(FIXTURES / "demo" / "host.o", "host.o")

    def run(*arguments: str) -> tuple[int, str]:
        return main(["inspect", *arguments]), capsys.readouterr().out

    return run


def test_objects_that_are_built_alike_give_nothing(run: Run) -> None:
    code, out = run("host.o", "k1.rdc.o", "main.rdc.o", "single.o", "--one-program")
    assert (code, "FP1420" in out) == (0, False)


def test_an_object_for_other_architectures_is_reported_with_its_file(run: Run) -> None:
    shutil.copy(FIXTURES / "cuda_fatbin" / "recorded" / "v130_family.fatbin", "f.fatbin")
    for arguments in (("--one-program",), ("--one-program", "--json")):
        code, out = run("k1.rdc.o", "f.fatbin", "main.rdc.o", *arguments)
        assert (code, out.count("FP1420")) == (1, 1)
    files = json.loads(out)["files"]
    (note,) = [(file["path"], item) for file in files for item in file["findings"] if item["code"] == "FP1420"]
    assert note[0] == "f.fatbin"
    assert note[1]["offset"] is None
    start = "'f.fatbin' lacks compute_90 (ptx), sm_80 (cubin) and has compute_100f (ptx), "
    assert note[1]["message"].startswith(start)
    assert note[1]["message"].endswith(", compared with 'k1.rdc.o'")
    assert run("k1.rdc.o", "f.fatbin")[0] == 0


def test_forms_count_as_architectures_do(run: Run) -> None:
    code, out = run("single.o", "clang_min.o", "--one-program")
    assert (code, "'clang_min.o'" in out) == (0, False)
    assert main(["convert", "single.o", "--format=fatbin", "--form=cubin", "-o", "bare", "-q"]) == 0
    assert "'bare' lacks compute_90 (ptx), compared with 'single.o'" in run("single.o", "bare", "--one-program")[1]


@pytest.mark.reference
def test_members_of_an_archive_are_parts_of_their_own(run: Run) -> None:
    shutil.copy(HOSTS / "libtwo.so", "two.o")
    reference.run("ar", "rcs", "lib.a", "k1.rdc.o", "host.o", "two.o", cwd=Path.cwd())
    code, out = run("lib.a", "--one-program")
    assert code == 1
    added = "compute_75 (ptx), sm_75 (cubin), sm_90a (cubin)"
    assert f"'lib.a(two.o)' has {added} besides, compared with 'lib.a(k1.rdc.o)'" in out


def _record(path: str, *images: tuple[str, str, str]) -> dict[str, object]:
    rows = [{"arch": arch, "triple": "t", "form": form, "offload": offload} for arch, form, offload in images]
    containers = [{"member": None, "images": [{**row, "containers": []} for row in rows]}]
    return {"path": path, "containers": containers, "findings": []}


def test_images_for_the_host_and_files_that_cannot_be_read_are_no_parts() -> None:
    records = [{"path": "unreadable"}, _record("a", ("", "object", "host"), ("gfx90a", "code-object", "hip"))]
    assert not add_differences([*records, _record("b", ("gfx90a", "code-object", "hip"))])
    assert add_differences([*records, _record("c", ("", "code-object", "hip"))])
