"""``inspect --runtime``, ``check --registered`` and ``doctor`` say the same of what a file registers: one verdict."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from tests import reference
from tests.builders import registration
from tests.runtime.evidence.test_programs import RUNTIME

import fatpack
from fatpack.elf import constants
from fatpack.elf.file import ElfFile
from fatpack.io.sources.opening import open_source
from fatpack.report.registration.records import registration as record_of
from fatpack.runtime.evidence.programs.code import x86

FIXTURES = Path(__file__).parents[1] / "fixtures"
SUFFIXES = (".o", ".obj", ".so", ".a", ".exe", ".dll", ".bc", ".wasm")
FILES = sorted(path for path in FIXTURES.rglob("*") if path.suffix in SUFFIXES)

LINUX = "x86_64-linux-gnu"


def inspected(path: Path) -> tuple[str, set[str]]:
    """Return the verdict of ``inspect --runtime``, and the codes of warnings and errors about registration."""
    with open_source(str(path)) as source:
        record = record_of(source.view())
    found = {item["code"] for item in record["findings"] if item["severity"] != "note"}
    return record["verdict"], {code for code in found if code.startswith("FP30")}


def verdicts(path: Path) -> dict[str, tuple[str, set[str]]]:
    """Return what each of the three says, in the words of ``inspect --runtime``."""
    word, codes = inspected(path)
    made = fatpack.check(path, registered=True)
    broken = {item.code for item in made.violations if item.is_broken and item.code.startswith("FP30")}
    unjudged = any(item.code == "FP3310" for item in made.violations)
    diagnosis = fatpack.doctor(path)
    ill = {item.code for item in diagnosis.findings if item.code.startswith("FP30") and item.severity != "note"}
    sound = "nothing registers" if word == "nothing registers" else "agrees"
    if word == "nothing registers":
        unjudged = False  # of a file of images alone the policy says that nothing was checked
    return {
        "inspect": (word, codes),
        "check": ("findings" if broken else "not judged" if unjudged else sound, broken),
        "doctor": ("findings" if ill else "not judged" if diagnosis.unjudged else sound, ill),
    }


def agreed(path: Path) -> tuple[str, set[str]]:
    """Return what all three say; no vouching word is said beside a finding, or where nothing was judged."""
    found = verdicts(path)
    assert found["check"] == found["inspect"], path
    assert found["doctor"] == found["inspect"], path
    if found["inspect"][0] in ("findings", "not judged"):
        assert fatpack.doctor(path).verdict != "healthy", path
        assert fatpack.check(path, registered=True).verdict != "passed", path
        assert fatpack.check(path, registered=True, strict=True).exit_code, path
    return found["inspect"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_all_fixtures(path: Path) -> None:
    agreed(path)


def linked(folder: Path, *options: str, name: str = "program") -> Path:
    """Return the library that is linked from ``unit.o``."""
    reference.run("ld.lld", "--eh-frame-hdr", "unit.o", *options, "-o", name, cwd=folder)
    return folder / name


@pytest.mark.reference
@pytest.mark.parametrize("model", registration.MODELS)
def test_broken_objects_and_libraries(tmp_path: Path, model: str) -> None:
    reference.package("capstone")
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, "-O0", "-fPIC", embedded=embedded)
    damages = {**registration.BROKEN, **registration.BROKEN_PLAIN}
    for name, edit in {"whole": str, **{name: edit for name, (edit, _) in damages.items()}}.items():
        unit = registration.compiled(tmp_path, edit(text), LINUX, "unit", "-O0", "-fPIC")
        library = linked(tmp_path, "-shared")
        stripped = tmp_path / "stripped"
        reference.run("llvm-strip", library, "-o", stripped)
        expected = "agrees" if name == "whole" else "findings"
        assert [agreed(path)[0] for path in (unit, library, stripped)] == [expected] * 3, name


@pytest.mark.reference
def test_nothing_is_vouched_for_that_was_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = registration.image(tmp_path, "cuda")
    text = registration.host_ir(tmp_path, "cuda", LINUX, "-O1", "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, LINUX, "unit", "-mcmodel=large", "-fPIC")
    library = linked(tmp_path, "-shared")
    monkeypatch.setattr(x86, "is_available", lambda: False)
    assert agreed(library) == ("not judged", set())
    made = fatpack.check(library, registered=True)
    assert (made.verdict, made.exit_code) == ("not judged", 0)
    assert made.lines()[0].startswith("not judged: ")
    assert "pip install capstone" in fatpack.doctor(library).lines()[0]


def test_images_alone_are_not_said_to_be_unreadable() -> None:
    for name in ("cuda_fatbin/v130_size.fatbin",):
        made = fatpack.check(FIXTURES / name, registered=True)
        assert (made.verdict, made.exit_code) == ("not judged", 0)
        assert fatpack.check(FIXTURES / name, registered=True, strict=True).exit_code == 1


def runtime(folder: Path) -> None:
    """Make ``rt.o``, which defines the functions of both runtimes."""
    (folder / "rt.c").write_text(f"{RUNTIME}int atexit() {{ return 0; }}\n")
    options = [f"--target={LINUX}", "-fPIC", "-w", "-ffreestanding", "-c", "rt.c", "-o", "rt.o"]
    reference.run("clang", *options, cwd=folder)


def without_calls(path: Path, name: str) -> None:
    """Overwrite the calls of a function in an x86-64 object by instructions that do nothing; its symbol stays."""
    data = bytearray(path.read_bytes())
    with open_source(str(path)) as source:
        elf = ElfFile(source.view())
        sections = list(elf.sections())
        for table in (each for each in sections if each.type == constants.RELA):
            symbols = sections[table.link]
            strings = sections[symbols.link]
            for at in range(table.offset, table.end, 24):
                place, info = struct.unpack_from("<QQ", data, at)
                (start,) = struct.unpack_from("<I", data, symbols.offset + 24 * (info >> 32))
                end = data.index(b"\0", strings.offset + start)
                if data[strings.offset + start : end] == name.encode():
                    call = sections[table.info].offset + place - 1
                    assert data[call] == 0xE8
                    data[call : call + 5] = bytes.fromhex("0f1f440000")
                    struct.pack_into("<QQQ", data, at, place, 0, 0)
    assert data != path.read_bytes()
    path.write_bytes(data)


@pytest.mark.reference
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("model", registration.MODELS)
def test_calls_that_are_patched_away(tmp_path: Path, model: str, level: str) -> None:
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, level, "-fPIC", embedded=embedded)
    for name, code in {"RegisterFunction": "FP3042", "RegisterFatBinary": "FP3053"}.items():
        unit = registration.compiled(tmp_path, text, LINUX, "unit", level, "-fPIC")
        without_calls(unit, f"__{model}{name}")
        assert agreed(unit) == ("findings", {code}), name


def without_binary(text: str) -> str:
    """Take out the call that registers the container, and leave those that register kernels in it."""
    call = re.compile(r"^\s*(%\d+) = (?:tail )?call ptr @__(cuda|hip)RegisterFatBinary\(.*$", re.MULTILINE)
    made, count = call.subn(r"  \1 = inttoptr i64 1 to ptr", text)
    assert count
    return made


def doubled(text: str) -> str:
    """Register the container twice."""
    call = re.compile(r"^\s*(%\d+) = ((?:tail )?call ptr @__(?:cuda|hip)RegisterFatBinary\(.*)$", re.MULTILINE)
    made, count = call.subn(r"  %again = \2\n  \1 = \2", text)
    assert count
    return made


@pytest.mark.reference
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("model", registration.MODELS)
def test_what_registers_the_container_is_wrong(tmp_path: Path, model: str, level: str) -> None:
    reference.package("capstone")
    runtime(tmp_path)
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, level, "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, LINUX, "unit", level, "-fPIC")
    segment = {"cuda": ".nvFatBinSegment", "hip": ".hipFatBinSegment"}[model]
    for options in (["-shared"], ["-static", "-e", "0", "rt.o"]):
        whole = linked(tmp_path, *options)
        assert agreed(whole) == ("agrees", set())
        reference.run("llvm-objcopy", f"--remove-section={segment}", whole, cwd=tmp_path)
        assert agreed(whole) == ("findings", {"FP3057"})
    for edit, code in ((without_binary, "FP3053"), (doubled, "FP3058")):
        unit = registration.compiled(tmp_path, edit(text), LINUX, "unit", level, "-fPIC")
        if code == "FP3053" or level == "-O0":
            assert agreed(unit) == ("findings", {code})
        assert code in agreed(linked(tmp_path, "-shared"))[1]


@pytest.mark.reference
@pytest.mark.parametrize("model", registration.MODELS)
def test_a_library_that_calls_the_runtime_in_it_through_the_plt(tmp_path: Path, model: str) -> None:
    reference.package("capstone")
    runtime(tmp_path)
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, "-O2", "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, LINUX, "unit", "-O2", "-fPIC")
    library = linked(tmp_path, "-shared", "rt.o")
    assert agreed(library) == ("agrees", set())
    reference.run("llvm-strip", library)
    assert agreed(library) == ("agrees", set())


@pytest.mark.reference
@pytest.mark.parametrize("model", registration.MODELS)
def test_constructors_are_those_that_the_loader_runs(tmp_path: Path, model: str) -> None:
    reference.package("capstone")
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, "-O2", "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, LINUX, "unit", "-O2", "-fPIC")
    library = linked(tmp_path, "-shared")
    whole = library.read_bytes()
    for size in (0, 8):  # DT_INIT_ARRAYSZ as it is, and none: the section and its bytes stay
        entry = struct.pack("<QQ", 27, 8)
        assert whole.count(entry) == 1
        library.write_bytes(whole.replace(entry, struct.pack("<QQ", 27, size)))
        assert agreed(library) == (("agrees", set()) if size else ("findings", {"FP3043"}))


@pytest.mark.reference
@pytest.mark.parametrize("model", registration.MODELS)
def test_packed_relocations_are_not_read_and_no_null_pointers(tmp_path: Path, model: str) -> None:
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, "-O2", "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, LINUX, "unit", "-O2", "-fPIC")
    assert agreed(linked(tmp_path, "-shared", "--pack-dyn-relocs=android")) == ("not judged", set())
