"""A real CPython for Windows, under wine: installed with pip, called by its launchers, and a part of the tests."""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import reference

import fatpack

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures"

#: Tests that run there: three formats, the host of most edits, codecs, bulk bytes, and a command.
PARTS = ["formats/offload_binary", "formats/clang_bundle", "formats/cuda_fatbin", "binary/elf", "codecs"]
PARTS += ["io/test_bulk.py", "io/test_writing.py", "commands/pack/test_pack_command.py"]

#: Tests that cannot: wine has no symbolic links, Windows no pipes in folders and no full disk to write to, and an
#: isolated interpreter loads more there.
WITHOUT = ["symbolic_link_out_of", "full_disk_is", "pipes_and_directories", "loads_no_editor"]

#: Seconds that a part of the tests may take: wine, and an interpreter that has no file to keep its bytecode in.
LIMIT = 1200


class Windows:
    """A Python for Windows with the installed wheel; paths of this machine are below its drive Z."""

    def __init__(self, folder: Path, wine: str, python: Path) -> None:
        self.folder, self._wine, self.python = folder, wine, python

    def __call__(self, program: Path, *arguments: object, more: dict[str, str] | None = None) -> tuple[int, str]:
        """Run a program in the folder; return its exit code, and its output with the line ends of POSIX."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {"WINEPREFIX": str(self.folder / "wine"), "WINEDEBUG": "-all", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [self._wine, program, *map(str, arguments)],
            cwd=self.folder,
            env=environment | (more or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
        )
        return done.returncode, done.stdout.decode("cp1252", "replace").replace("\r\n", "\n")

    def fatpack(self, *arguments: object) -> str:
        """Run the installed launcher, which must not fail; return its output."""
        code, said = self(self.folder / "P/Scripts/fatpack.exe", *arguments, more=self.installed)
        assert code == 0, said
        return said

    @property
    def installed(self) -> dict[str, str]:
        """The metadata of the installed packages, which are not in the folder of the interpreter."""
        return {"PYTHONPATH": f"Z:{self.folder}/P/Lib/site-packages".replace("/", "\\")}


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Windows:
    wine = next((path for path in ("/usr/lib/wine/wine64", shutil.which("wine64")) if path and Path(path).exists()), "")
    given = Path(os.environ.get("FATPACK_REFERENCE_WINDOWS") or ROOT / ".reference/windows").resolve()
    python = given / "python/python.exe"
    if not wine or not python.exists():
        reference.missing("wine64 and a Python for Windows (tools/reference/get_windows_python.sh)")
    folder = tmp_path_factory.mktemp("windows")
    command = [sys.executable, "-m", "build", "-q", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    found = Windows(folder, wine, python)
    pip = ["-m", "pip", "install", "-q", "--no-index", "--no-compile", "--no-warn-script-location"]
    code, said = found(python, *pip, "--find-links", f"Z:{given}/wheels", "--prefix", "P", wheel.name)
    assert code == 0, said
    return found


@pytest.mark.slow
class TestInstalled:
    def test_the_launcher_says_its_version(self, windows: Windows) -> None:
        assert windows.fatpack("--version") == f"fatpack {fatpack.__version__}\n"

    def test_what_is_packed_has_the_same_bytes_and_is_taken_out_again(self, windows: Windows) -> None:
        cubin = windows.folder / "a.cubin"
        shutil.copy(FIXTURES / "cuda/cubin/k1.cuda13.0.sm_80.cubin", cubin)
        given = ["pack", "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda", "-q", "-o"]
        windows.fatpack(*given, "there")
        subprocess.run([sys.executable, "-m", "fatpack", *given, "here"], cwd=windows.folder, check=True)
        assert filecmp.cmp(windows.folder / "there", windows.folder / "here", shallow=False)
        windows.fatpack("check", "there", "--require", "sm_80")
        windows.fatpack("extract", "there", "-d", "made", "-q")
        (made,) = (windows.folder / "made").iterdir()
        assert filecmp.cmp(made, cubin, shallow=False)

    def test_a_file_says_the_same(self, windows: Windows) -> None:
        shutil.copytree(FIXTURES / "elf", windows.folder / "elf")
        command = [sys.executable, "-m", "fatpack", "inspect", "--json", "clang-22-openmp-gfx90a.o"]
        here = subprocess.run(command, cwd=windows.folder / "elf", capture_output=True, text=True, check=True).stdout
        shutil.copy(FIXTURES / "elf/clang-22-openmp-gfx90a.o", windows.folder)
        assert windows.fatpack("inspect", "--json", "clang-22-openmp-gfx90a.o") == here

    def test_an_object_is_edited_in_place(self, windows: Windows) -> None:
        for name in ("there.o", "here.o"):
            shutil.copy(FIXTURES / "elf/clang-22-openmp-gfx90a.o", windows.folder / name)
        windows.fatpack("remove", "there.o", "--in-place")
        command = [sys.executable, "-m", "fatpack", "remove", "here.o", "--in-place"]
        subprocess.run(command, cwd=windows.folder, check=True, capture_output=True)
        assert filecmp.cmp(windows.folder / "there.o", windows.folder / "here.o", shallow=False)
        assert not list(windows.folder.glob(".fatpack.*"))

    def test_stand_ins_are_launchers_that_run(self, windows: Windows) -> None:
        windows.fatpack("tool", "--install", "in")
        placed = sorted(path.name for path in (windows.folder / "in").iterdir())
        assert "fatbinary.exe" in placed
        code, said = windows(windows.folder / "in/fatbinary.exe", "--version", more=windows.installed)
        assert (code, said.split(",")[0]) == (0, f"fatbinary: fatpack {fatpack.__version__}")
        assert windows.fatpack("tool", "--uninstall", "in").startswith(f"{len(placed)} stand-ins removed from in\n")
        assert not list((windows.folder / "in").iterdir())


@pytest.mark.slow
def test_a_part_of_the_tests_passes(windows: Windows) -> None:
    own = f"Z:{ROOT}/src".replace("/", "\\")
    options = ["-q", "-p", "no:cacheprovider", "-m", "not slow and not gpu"]
    options += ["--timeout", "120", "--tb", "short", f"--rootdir=Z:{ROOT}", "-c", f"Z:{ROOT}/pyproject.toml"]
    options += ["-k", f"not ({' or '.join(WITHOUT)})"]
    code, said = windows(
        windows.python,
        "-m",
        "pytest",
        *options,
        *(f"Z:{ROOT}/tests/{part}" for part in PARTS),
        more={"PYTHONPATH": own, "FATPACK_REQUIRE_REFERENCE": ""},
    )
    assert code == 0, said[-8000:]
    assert " passed" in said
