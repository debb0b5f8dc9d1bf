"""What became of images and kernels: lost, added, changed, packed anew or built anew."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
from tests.builders import packages
from tests.laws.rooms import FIXTURES
from tests.reference import run, tool

import fatpack
from fatpack.answers.diff.matching import matched
from fatpack.answers.diff.reading import Library
from fatpack.cli import main
from fatpack.report.schemas import text

PTX = """
.version 8.0
.target sm_75
.address_size 64
.file 1 "k.cu", 1700000000, 100
.visible .entry _Z5scalePfi(.param .u64 at)
{
  .reg .b64 %rd<3>;
  .loc 1 7 2
  ld.param.u64 %rd1, [at];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], 7;
  ret;
}
.visible .entry other(.param .u64 at)
{
  ret;
}
"""


def built(folder: Path, name: str, text: str = PTX, arch: str = "sm_75", *options: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".ptx.txt").write_text(text)
    run("ptxas", f"-arch={arch}", *options, "-o", path, path.with_suffix(".ptx.txt"))
    return path


def test_a_build_without_a_change_is_quiet(tmp_path: Path) -> None:
    old = built(tmp_path, "old.cubin")
    new = built(tmp_path, "new.cubin", PTX.replace("1700000000", "1800000000"), "sm_75", "-lineinfo")
    assert fatpack.diff(old, new).kinds == ("changed",)
    found = fatpack.diff(old, new, kernels=True)
    assert (found.kinds, found.differs, found.exit_code) == (("rebuilt",), False, 0)


def test_a_changed_kernel_is_named(tmp_path: Path) -> None:
    old, new = built(tmp_path, "old.cubin"), built(tmp_path, "new.cubin", PTX.replace("], 7", "], 8"))
    found = fatpack.diff(old, new, kernels=True, demangle=True)
    (arch,) = found.libraries[0].archs
    assert arch.kernels is not None
    assert [(item.kind, item.name, item.demangled) for item in arch.kernels] == [
        ("changed", "_Z5scalePfi", "scale(float*, int)")
    ]
    assert found.kinds == ("changed",)


def test_needs_are_those_of_cuobjdump(tmp_path: Path) -> None:
    tool("cuobjdump")
    body = "\n".join(
        (
            ".reg .u32 %r<3>;",
            ".shared .b8 s[512];",
            "mov.u32 %r1, %clock;",
            "mov.u32 %r2, s;",
            "st.shared.u32 [%r2], %r1;",
            "st.global.u32 [%rd2], %r1;",
        )
    )
    wide = PTX.replace("st.global.u32 [%rd2], 7;", body)
    old, new = built(tmp_path, "old.cubin"), built(tmp_path, "new.cubin", wide)
    (arch,) = fatpack.diff(old, new, kernels=True).libraries[0].archs
    assert arch.kernels is not None
    needs = {field: (before, now) for field, before, now in arch.kernels[0].needs}
    for path, side in ((old, 0), (new, 1)):
        printed = run("cuobjdump", "-res-usage", path).stdout.decode()
        (usage,) = re.findall(r"Function _Z5scalePfi:\s+(.*)", printed)
        told = dict(word.split(":", 1) for word in usage.split())
        assert needs["shared"][side] == int(told["SHARED"])
        assert needs.get("registers", (int(told["REG"]),) * 2)[side] == int(told["REG"])


def test_variables_count(tmp_path: Path) -> None:
    table = PTX.replace(".file", ".visible .const .align 4 .b8 t[4] = {1, 2, 3, 4};\n.file")
    old, new = built(tmp_path, "old.cubin", table), built(tmp_path, "new.cubin", table.replace("3, 4}", "3, 5}"))
    found = fatpack.diff(old, new, kernels=True)
    assert found.kinds == ("changed",)
    assert found.libraries[0].archs[0].variables
    assert found.libraries[0].archs[0].kernels == ()


def test_kernels_lost_and_added(tmp_path: Path) -> None:
    old, new = built(tmp_path, "old.cubin"), built(tmp_path, "new.cubin", PTX.replace("entry other", "entry third"))
    (arch,) = fatpack.diff(old, new, kernels=True).libraries[0].archs
    assert arch.kernels is not None
    assert [(item.kind, item.name) for item in arch.kernels] == [("lost", "other"), ("added", "third")]


@pytest.mark.parametrize("mode", ["none", "size"])
def test_images_that_are_packed_anew(tmp_path: Path, mode: str) -> None:
    fatbin = tmp_path / "old.fatbin"
    image = fatpack.ImageFile(FIXTURES / "kernels" / "needs.cuda13.0.sm_75.cubin", arch="sm_75")
    fatpack.pack([image], fatbin, format="fatbin")
    fatpack.pack([image], tmp_path / "new.fatbin", options=fatpack.FatbinOptions(compress_mode=mode))  # type: ignore[arg-type]
    found = fatpack.diff(fatbin, tmp_path / "new.fatbin")
    assert set(found.kinds) <= {"repacked", "grown"}
    assert ("repacked" in found.kinds) == (fatbin.read_bytes() != (tmp_path / "new.fatbin").read_bytes())
    assert not found.differs


def test_architectures_are_those_of_cuobjdump(tmp_path: Path) -> None:
    tool("cuobjdump")
    for name in ("v130_none.fatbin", "v130_size.fatbin"):
        path = FIXTURES / "cuda_fatbin" / "recorded" / name
        if not path.exists():
            continue
        listed = run("cuobjdump", "-lelf", path).stdout.decode()
        told = Counter(re.findall(r"\.(sm_\w+)\.cubin", listed))
        (library,) = fatpack.diff(path, path).libraries
        assert {arch.arch: arch.old_images for arch in library.archs if arch.form == "cubin"} == dict(told)


def library(name: str) -> Library:
    return Library(name, tuple(name.split("/")), 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lib/libx.so.1.2", "lib/libx.so.1.3"),
        ("x.libs/libx-0a1b2c3d.so.12", "x.libs/libx-deadbeef.so.13"),
        ("x-1.0.data/platlib/x.so", "x-1.1+local.data/platlib/x.so"),
        ("x/_C.cpython-311-x86_64-linux-gnu.so", "x/_C.cpython-312-x86_64-linux-gnu.so"),
        ("bin/cublas64_12.dll", "bin/cublas64_13.dll"),
        ("data.tar.xz/usr/lib/libx.so", "usr/lib/libx.so"),
        ("lib64/libx.so", "lib/libx.so"),
    ],
)
def test_libraries_of_another_version_are_matched(old: str, new: str) -> None:
    here, there = [library(old), library("lib/liby.so")], [library("lib/liby.so"), library(new)]
    assert {(a and a.path, b and b.path) for a, b in matched(here, there)} == {(old, new), ("lib/liby.so",) * 2}


def test_what_has_no_one_match_is_lost_and_added() -> None:
    pairs = matched([library("a/libx.so"), library("b/libx.so")], [library("c/libx.so"), library("b/libx.so")])
    assert {(a and a.path, b and b.path) for a, b in pairs} == {("a/libx.so", "c/libx.so"), ("b/libx.so",) * 2}
    pairs = matched([library("a/libx.so"), library("b/libx.so")], [library("c/libx.so")])
    assert {(a and a.path, b and b.path) for a, b in pairs} == {
        ("a/libx.so", None),
        ("b/libx.so", None),
        (None, "c/libx.so"),
    }


CUBIN = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"
OTHER = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin"


@pytest.mark.parametrize("options", [[], ["--kernels"], ["-v"]])
@pytest.mark.parametrize(("new", "code"), [(CUBIN, 0), (OTHER, 1)])
def test_exit_codes_and_json(new: Path, code: int, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(CUBIN), str(new), *options]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("the same device code: 1 library, 1 image" if code == 0 else lines[0])
    assert code == 0 or lines[0].startswith("lost: sm_80; added: sm_90")
    assert main(["diff", str(CUBIN), str(new), *options, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(text("diff")))
    assert document["differs"] == bool(code)
    assert {**fatpack.diff(CUBIN, new, kernels="--kernels" in options).to_dict(), "exit_code": code} == document


def test_what_fails_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    for kinds, code in (("lost", 1), ("changed", 0), ("changed,added", 1), ("none", 0)):
        assert main(["diff", str(CUBIN), str(OTHER), "--fail-on", kinds]) == code
    assert main(["diff", str(CUBIN), str(OTHER), "--fail-on", "lost,more"]) == 2
    assert "'more' is no kind of difference" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([str(CUBIN)], "1 file given, two were expected"),
        ([str(CUBIN), str(CUBIN), "--demangle"], "--demangle goes with --kernels"),
    ],
)
def test_wrong_use(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_what_cannot_be_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in ("old", "new"):
        (tmp_path / side).mkdir()
        shutil.copy(CUBIN, tmp_path / side / "a.cubin")
    broken = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()[:200]
    (tmp_path / "new" / "b.fatbin").write_bytes(broken)
    assert main(["diff", str(tmp_path / "old"), str(tmp_path / "new")]) == 3
    assert f"not read: {tmp_path / 'new' / 'b.fatbin'}: " in capsys.readouterr().out
    assert main(["diff", str(tmp_path / "old"), str(tmp_path / "nothing")]) == 5


def test_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "fatpack.diff/1"


def test_results_can_be_pickled_and_compared() -> None:
    import pickle

    found = fatpack.diff(CUBIN, OTHER, kernels=True)
    assert pickle.loads(pickle.dumps(found)) == found
    assert isinstance(found, fatpack.Diff)


def test_a_damaged_program_that_demangles_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from fatpack import demangling

    monkeypatch.setattr(demangling, "_by_package", lambda names: None)
    assert demangling.demangled(["_Z5scalePfi", "plain", "_Z"]) == {"_Z5scalePfi": "scale(float*, int)"}
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(fatpack.Unsupported, match=r"fatpack\[demangle\]"):
        demangling.demangled(["_Z5scalePfi"])
    assert demangling.demangled(["plain"]) == {}


def test_names_are_compared_where_nothing_else_is_known(tmp_path: Path) -> None:
    old = FIXTURES / "kernels" / "add_one.llvm22.spv"
    data = old.read_bytes()
    (tmp_path / "other.spv").write_bytes(data.replace(b"add_one", b"add_two"))
    (arch,) = fatpack.diff(old, tmp_path / "other.spv", kernels=True).libraries[0].archs
    assert arch.kernels is not None
    assert [item.kind for item in arch.kernels] == ["lost", "added"]
    at = data.index(b"add_one") + 7 + 40
    (tmp_path / "changed.spv").write_bytes(data[:-4] + bytes((data[-4] ^ 1,)) + data[-3:])
    assert at < len(data)
    (arch,) = fatpack.diff(old, tmp_path / "changed.spv", kernels=True).libraries[0].archs
    assert (arch.changed, arch.kernels) == (1, ())


def test_files_in_packages_and_urls_are_named_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = tmp_path / "x-1.0-py3-none-any.whl"
    wheel.write_bytes(packages.zipped({"x/a.cubin": CUBIN.read_bytes(), "x/b.cubin": OTHER.read_bytes()}))
    assert main(["diff", f"{wheel}!x/a.cubin", str(CUBIN)]) == 0
    assert main(["diff", f"{wheel}!x/b.cubin", CUBIN.as_uri()]) == 1
    assert capsys.readouterr().out.splitlines()[1].startswith("lost: sm_90; added: sm_80")


@pytest.mark.parametrize("percent", [0, 2, 30, 60, 95])
def test_damage_ends_with_an_answer(tmp_path: Path, percent: int) -> None:
    for name in ("offload_binary/llvm-22-four.bin", "cuda_fatbin/recorded/v130_none.fatbin", "elf/clang-22-hip.o"):
        path = FIXTURES / name
        cut = tmp_path / "cut"
        cut.write_bytes(path.read_bytes()[: path.stat().st_size * percent // 100])
        for found in (fatpack.diff(path, cut, kernels=True), fatpack.diff(cut, path)):
            assert found.exit_code in (1, 3)


def test_kernels_of_one_name_are_paired_as_stored(tmp_path: Path) -> None:
    """The same template is compiled into several images of a library."""
    for side, numbers in (("old", (7, 8, 9)), ("new", (7, 5, 6))):
        images = []
        for number in numbers:
            path = built(tmp_path, f"{side}{number}.cubin", PTX.replace("], 7", f"], {number}"))
            images.append(fatpack.ImageFile(path, arch="sm_75"))
        (tmp_path / side).write_bytes(b"")
        data = b""
        for number, image in enumerate(images):
            fatpack.pack([image], tmp_path / f"{side}{number}.fatbin", format="fatbin")
            data += (tmp_path / f"{side}{number}.fatbin").read_bytes()
        (tmp_path / side).write_bytes(data)
    (arch,) = fatpack.diff(tmp_path / "old", tmp_path / "new", kernels=True).libraries[0].archs
    assert (arch.old_images, arch.new_images, arch.changed, arch.lost) == (3, 3, 2, 0)
    assert arch.kernels is not None
    assert [(item.kind, item.name) for item in arch.kernels] == [("changed", "_Z5scalePfi")] * 2


def test_members_without_a_container_are_told_apart(tmp_path: Path) -> None:
    """They have no position; each has its place in the archive."""
    first, other = built(tmp_path, "a.cubin"), built(tmp_path, "b.cubin", PTX.replace("_Z5scalePfi", "twice"))
    changed = built(tmp_path / "new", "a.cubin", PTX.replace("], 7", "], 8"))
    old, new = tmp_path / "old.a", tmp_path / "new.a"
    run("llvm-ar", "rcsD", old, first, other)
    run("llvm-ar", "rcsD", new, changed, other)
    assert fatpack.diff(old, new).kinds == ("changed",)
    found = fatpack.diff(old, new, kernels=True)
    (arch,) = found.libraries[0].archs
    assert [item.name for item in arch.kernels or ()] == ["_Z5scalePfi"]


@pytest.mark.parametrize("new", [["ba"], ["a", "b"]], ids=["order", "containers"])
def test_images_that_a_device_gets_otherwise_are_moved(
    new: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of equals a driver takes the first, and it chooses from one container at a time."""
    cubins = {"a": built(tmp_path, "a.cubin"), "b": built(tmp_path, "b.cubin", PTX.replace("scale", "twice"))}

    def fatbin(words: str) -> bytes:
        output = io.BytesIO()
        fatpack.pack([fatpack.ImageFile(cubins[word], arch="sm_75") for word in words], output, format="fatbin")
        return output.getvalue()

    (tmp_path / "old.bin").write_bytes(fatbin("ab"))
    (tmp_path / "new.bin").write_bytes(b"".join(map(fatbin, new)))
    assert fatpack.diff(tmp_path / "old.bin", tmp_path / "old.bin").kinds == ()
    assert "moved" in fatpack.diff(tmp_path / "old.bin", tmp_path / "new.bin").kinds
    assert main(["diff", str(tmp_path / "old.bin"), str(tmp_path / "new.bin")]) == 1
    assert "moved: the same images in other containers, or in another order, in" in capsys.readouterr().out
