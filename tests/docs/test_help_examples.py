"""Every example that a command's help ends with, and those of the README's first block, run on real files."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.builders import wheels
from tests.builders.cir import HOST, SM_80, SM_90, combined
from tests.laws.rooms import FIXTURES

from fatpack.command_line.examples import EXAMPLES
from fatpack.main import main

README = Path(__file__).parents[2] / "README.md"
HOSTS = FIXTURES / "cuda_fatbin" / "hosts"
MODULE = 'module attributes {cir.triple = "nvptx64-nvidia-cuda"} {\n  cir.func @k() {\n    cir.return\n  }\n}\n'

#: name in an example → the file that it is here
FILES = {
    "k.cubin": FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin",
    "new.cubin": FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin",
    "k.hsaco": FIXTURES / "kernels" / "needs.v6.gfx90a.hsaco",
    "host.o": FIXTURES / "demo" / "host.o",
    "k.fatbin": FIXTURES / "cuda_fatbin" / "v130_size.fatbin",
    "libx.so": HOSTS / "libtwo.so",
    "fat.o": HOSTS / "single.o",
    "x.o": HOSTS / "single.o",
    "k.o": HOSTS / "single.o",
    "a.o": FIXTURES / "elf" / "clang-22-hip-rdc-bundler.o",
}
#: examples that find something, as they would on files that nobody has mended
FINDING = (
    "check ",
    "check-kpack ",
    "check-stages ",
    "explain ",
    "diff ",
    "link-inputs ",
    "doctor ",
    "remove fat.o --arch sm_70",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file for each name that the examples have, and programs that stand for ptxas and nvdisasm."""
    monkeypatch.chdir(tmp_path)
    for name, path in FILES.items():
        shutil.copy(path, name)
    data = wheels.wheel({"demo/libx.so": FILES["libx.so"].read_bytes()})
    (tmp_path / "lib").mkdir()
    for folder in ("dist", "wheels", "site-packages"):
        (tmp_path / folder).mkdir()
    for name in ("dist/demo-1.5-py3-none-any.whl", "wheels/demo-1.5-py3-none-any.whl", "old.whl", "new.whl"):
        Path(name).write_bytes(data)
    Path("demo-1.5-py3-none-any.whl").write_bytes(data)
    Path("k.cir").write_bytes(combined((MODULE, HOST), (MODULE, SM_80), (MODULE, SM_90)))
    from fatpack.binary import archive
    from fatpack.io.open import open_source
    from fatpack.io.write import write_pieces

    for name in ("lib.a", "lib/libx.a"):
        with open_source("fat.o") as source, open(name, "wb") as output:
            write_pieces(output.fileno(), archive.build_archive([(b"fat.o", source.view())]))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("ptxas", 'cp "$3" "$5"'), ("nvdisasm", "printf '\\t.target\\tsm_80\\n'")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    return tmp_path


def _run(words: list[str], capfd: pytest.CaptureFixture[str], *, may_find: bool) -> None:
    # A wheel has a name that says its version; x.whl stands for it on the pages.
    named = [word.replace("x.whl", "demo-1.5-py3-none-any.whl") if word == "x.whl" else word for word in words]
    if "-o" in named and Path(output := named[named.index("-o") + 1]).is_file():
        Path(output).unlink()  # the input of another example
    code = main(named)
    said = capfd.readouterr().err
    assert code in ((0, 1) if may_find else (0,)), (words, said)
    assert "Traceback" not in said


@pytest.mark.parametrize("words", [words for uses in EXAMPLES.values() for words, _ in uses])
def test_an_example_of_the_help_runs(words: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _run(shlex.split(words), capfd, may_find=words.startswith(FINDING))


def test_slimming_as_the_readme_shows_it_writes_a_wheel_with_a_name_of_its_own(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (line,) = re.findall(r"^\$ fatpack (slim x\.whl .*?)(?: +#.*)?$", README.read_text(), re.MULTILINE)
    _run(shlex.split(line), capfd, may_find=False)
    assert [path.name for path in Path("slim").iterdir()] == ["demo-1.5-1sm86.sm90-py3-none-any.whl"]
