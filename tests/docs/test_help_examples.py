"""Every example of the help, the README and the pages without a test of their own runs on real files."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import jsonschema
import pytest
from tests.builders import coff, wheels
from tests.builders.cir import HOST, SM_80, SM_90, combined
from tests.laws.rooms import FIXTURES

from fatpack.command_line.examples import EXAMPLES
from fatpack.commands import load_command
from fatpack.main import main

ROOT = Path(__file__).parents[2]
README, DOCS = ROOT / "README.md", ROOT / "docs"
HOSTS = FIXTURES / "cuda_fatbin" / "hosts"
MODULE = 'module attributes {cir.triple = "nvptx64-nvidia-cuda"} {\n  cir.func @k() {\n    cir.return\n  }\n}\n'

#: pages of stand-ins for DPC++'s programs → what their examples write
PIPELINE = {
    "clang-offload-deps.md": ("deps.bc", "deps.x86.bc"),
    "clang-offload-wrapper.md": ("wrapper.bc",),
    "file-table-tform.md": ("code.list",),
    "llvm-foreach.md": ("spv.list",),
}
#: page → the test that runs its examples without reading the page
RUN_ELSEWHERE = {
    "cli.md": "tests/docs/test_help_examples.py",  # what the help ends with
    "kernels.md": "tests/commands/inspect/test_inspect_command_kernels.py",
    "dead-code.md": "tests/commands/slim/test_dead_code.py",
    "tools/nvprune.md": "tests/docs/test_commands.py",
    "tools/roc-obj.md": "tests/docs/test_commands.py",
    "tools/roc-obj-extract.md": "tests/docs/test_commands.py",
    "tools/roc-obj-ls.md": "tests/docs/test_commands.py",
    "install.md": "tests/main/test_shells.py",
    **{f"tools/{page}": "tests/docs/test_help_examples.py" for page in PIPELINE},
}
#: page, example that no test runs; they need programs that no package index has. The list does not grow.
NOT_RUN = (
    ("install.md", "buildah build -f tools/packaging/container/Containerfile -t fatpack ."),
    ("install.md", 'podman run --rm -v "$PWD:/work" fatpack inspect libfoo.so'),
    ("how-to/survey.md", "--engine ray --address auto"),
)

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
    for name, content in wheels.files_of({"demo/libx.so": FILES["libx.so"].read_bytes()}).items():
        installed = tmp_path / ".venv/lib/python3.12/site-packages" / name
        installed.parent.mkdir(parents=True, exist_ok=True)
        installed.write_bytes(content)
    Path("k.cir").write_bytes(combined((MODULE, HOST), (MODULE, SM_80), (MODULE, SM_90)))
    from fatpack.binary import archive
    from fatpack.io.open import open_source
    from fatpack.io.write import write_pieces

    for name in ("lib.a", "lib/libx.a"):
        with open_source("fat.o") as source, open(name, "wb") as output:
            write_pieces(output.fileno(), archive.build_archive([(b"fat.o", source.view())]))
    with closing(sqlite3.connect("run.sqlite")) as run:
        run.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        run.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, demangledName INTEGER)")
        run.execute("INSERT INTO StringIds VALUES (1, 'add_one')")
        run.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 1)")
        run.commit()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("ptxas", 'cp "$3" "$5"'), ("nvdisasm", "printf '\\t.target\\tsm_80\\n'")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    return tmp_path


def _named(words: list[str]) -> list[str]:
    """Return words with the names of files, as a shell has them, and make what the command is about."""
    # A wheel has a name that says its version; x.whl stands for it on the pages.
    named = ["demo-1.5-py3-none-any.whl" if word == "x.whl" else word for word in words]
    if named[:2] == ["split", "--verify"]:
        assert main(["split", named[2], "-d", named[3], "-q"]) == 0
    return [name for word in named for name in (sorted(map(str, Path().glob(word))) if "*.whl" in word else [word])]


def _run(words: list[str], capfd: pytest.CaptureFixture[str], *, may_find: bool) -> None:
    named = _named(words)
    if "-o" in named and Path(output := named[named.index("-o") + 1]).is_file():
        Path(output).unlink()  # the input of another example
    code = main(named)
    said = capfd.readouterr().err
    assert code in ((0, 1) if may_find else (0,)), (words, said)
    assert "Traceback" not in said


@pytest.mark.parametrize("words", [words for uses in EXAMPLES.values() for words, _ in uses])
def test_an_example_of_the_help_runs(words: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _run(shlex.split(words), capfd, may_find=words.startswith(FINDING))


def _shown(page: Path) -> list[str]:
    """Return the command lines of fatpack that the console blocks of a page show."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return re.findall(r"^\$ fatpack (.*?)(?: +#.*)?$", "".join(blocks), re.MULTILINE)


#: what the README's commands that slim write, by their folders; the first copies a wheel that would get larger
SLIMMED = {"small": "demo-1.5-py3-none-any.whl", "slim": "demo-1.5-1sm86.sm90-py3-none-any.whl"}


def test_the_readme_shows_few_commands() -> None:
    assert 6 <= len(_shown(README)) <= 8


@pytest.mark.parametrize("line", _shown(README))
def test_an_example_of_the_readme_runs(line: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copy(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin", "a.cubin")
    words = [name for word in shlex.split(line) for name in (sorted(map(str, Path().glob(word))) or [word])]
    _run(words, capfd, may_find=words[0] in ("check", "explain"))
    if words[0] == "slim":
        assert [path.name for path in Path(words[-1]).iterdir()] == [SLIMMED[words[-1]]]


@pytest.mark.parametrize("words", [words for uses in EXAMPLES.values() for words, _ in uses])
def test_an_example_with_json_is_as_the_schema_says(
    words: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name, *rest = shlex.split(words)
    declared = load_command(name)
    if not declared.schema:
        assert "as_json" not in {option.name for option in declared.options}
        return
    named = _named([name, *rest])[1:]
    assert main([name, *named, "--schema"]) == 0
    schema = json.loads(capfd.readouterr().out)
    assert main([name, *named, "--json"]) in (0, 1)
    document = json.loads(capfd.readouterr().out)
    jsonschema.validate(document, schema)
    assert document["schema"] == declared.schema_asked([*named, "--json"])
    assert "error" not in document


def _blocks(page: Path) -> str:
    found = re.findall(r"^```\w*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return "".join(found).replace("\\\n", " ")


@pytest.mark.parametrize("page", PIPELINE)
def test_an_example_of_a_stand_in_for_dpcpp_runs(page: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    notes = b"openmp-x86_64-pc-linux-gnu.foo\0sycl-spir64.foo\0"
    Path("program").write_bytes(coff.build([coff.Section(b".tgtsym", notes)]))
    shutil.copy(FIXTURES / "kernels" / "add_one.llvm22.spv", "a.spv")
    Path("a.manifest").write_text("manifest\n")
    Path("a.sym").write_text("add_one\n")
    Path("a.prop").write_text("[Numbers]\nanswer=1|42\n")
    Path("images.table").write_text("[Code|Symbols|Properties]\na.spv|a.sym|a.prop\n")
    Path("code.list").write_text("a.spv\n")
    program = folder / "bin" / "llvm-spirv"
    program.write_text('#!/bin/sh\ncp "$3" "$2"\n')
    program.chmod(0o755)
    lines = re.findall(r"^\$ fatpack (.*)$", _blocks(DOCS / "tools" / page), re.MULTILINE)
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert main(words) == 0, (line, capfd.readouterr().err)
    for output in PIPELINE[page]:
        assert Path(output).stat().st_size, output


def test_every_page_with_commands_has_a_test_that_runs_them() -> None:
    """A page with commands has a test in this folder that reads it by its name, or runs in the test listed here."""
    tests = [path for path in Path(__file__).parent.glob("test_*.py") if path.name != Path(__file__).name]
    read = "".join(path.read_text(encoding="utf-8") for path in tests)
    pages = [page for page in DOCS.rglob("*.md") if re.search(r"^(?:.*[|&;(] *|\$ )?fatpack ", _blocks(page), re.M)]
    elsewhere = {page.relative_to(DOCS).as_posix() for page in pages if page.name not in read}
    assert elsewhere == RUN_ELSEWHERE.keys()
    for name, test in RUN_ELSEWHERE.items():
        assert Path(name).stem in (ROOT / test).read_text(encoding="utf-8"), name
    for name, line in NOT_RUN:
        assert line in (DOCS / name).read_text(encoding="utf-8"), line
