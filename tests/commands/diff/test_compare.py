"""Changes of images and kernels: lost, added, changed, repacked or rebuilt."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
from tests.builders import fatbin, linked_elf, packages, policy_files
from tests.builders.policy_files import container, cubin
from tests.laws.rooms import FIXTURES
from tests.reference import run, tool

import fatpack
from fatpack.commands.diff.model import ArchDiff, CodeSizes, DiffResult, KernelDiff, LibraryDiff
from fatpack.commands.diff.release import ImageFacts, LibraryFacts
from fatpack.commands.diff.run import match_libraries
from fatpack.commands.diff.text import render_diff
from fatpack.main import main
from fatpack.text.schemas import schema_text

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


def test_of_two_objects_kernels_that_came_and_went_are_named_unasked(tmp_path: Path) -> None:
    old, new = tmp_path / "old.o", tmp_path / "new.o"
    old.write_bytes(policy_files.library("80=a+b 90=a"))
    new.write_bytes(policy_files.library("80=a+c+d 90=a"))
    found = fatpack.diff(old, new)
    (arch,) = [arch for arch in found.libraries[0].archs if arch.kernels]
    assert [(item.kind, item.name) for item in arch.kernels or ()] == [("lost", "b"), ("added", "c"), ("added", "d")]
    lines = list(render_diff(found))
    assert lines[0].startswith("lost: 1 kernel; added: 2 kernels; changed: 1 image")
    assert not found.with_kernels


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


def test_an_image_whose_form_only_one_side_shows_is_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small container compressed as a whole is inflated for a listing: only then are its forms known."""
    (tmp_path / "large").write_bytes(bytes(range(256)) * 1024)
    code = FIXTURES / "kernels" / "needs.v6.gfx90a.hsaco"
    images = [f"--image=file={code},id=hip-amdgcn-amd-amdhsa--gfx90a"]
    images.append(f"--image=file={tmp_path / 'large'},id=hip-amdgcn-amd-amdhsa--gfx942")
    for name, kept in (("old", images), ("new", images[:1])):
        assert main(["pack", "--format=bundle", "--compress", *kept, "-q", "-o", str(tmp_path / name)]) == 0
    assert main(["diff", str(tmp_path / "old"), str(tmp_path / "new")]) == 1
    assert capsys.readouterr().out.startswith("lost: gfx942; -")
    assert main(["diff", str(tmp_path / "new"), str(tmp_path / "old")]) == 1
    assert capsys.readouterr().out.startswith("added: gfx942; +")


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


def library(name: str) -> LibraryFacts:
    return LibraryFacts(name, tuple(name.split("/")), 1)


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
    assert {(a and a.path, b and b.path) for a, b in match_libraries(here, there)} == {(old, new), ("lib/liby.so",) * 2}


def test_what_has_no_one_match_is_lost_and_added() -> None:
    pairs = match_libraries([library("a/libx.so"), library("b/libx.so")], [library("c/libx.so"), library("b/libx.so")])
    assert {(a and a.path, b and b.path) for a, b in pairs} == {("a/libx.so", "c/libx.so"), ("b/libx.so",) * 2}
    pairs = match_libraries([library("a/libx.so"), library("b/libx.so")], [library("c/libx.so")])
    assert {(a and a.path, b and b.path) for a, b in pairs} == {
        ("a/libx.so", None),
        ("b/libx.so", None),
        (None, "c/libx.so"),
    }


CUBIN = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"
OTHER = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin"


@pytest.mark.parametrize("options", [[], ["--kernels"], ["-v"]])
@pytest.mark.parametrize(
    ("new", "code", "first"),
    [(CUBIN, 0, "the same device code: 1 library, 1 image"), (OTHER, 1, "lost: sm_80; added: sm_90")],
)
def test_exit_codes_and_json(
    new: Path, code: int, first: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(CUBIN), str(new), *options]) == code
    line = capsys.readouterr().out.splitlines()[0]
    assert line == first if code == 0 else line.startswith(first)
    assert main(["diff", str(CUBIN), str(new), *options, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("diff")))
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
        (["-", "-"], "stdin is one input, and two are compared"),
    ],
)
def test_wrong_use(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_what_cannot_be_read_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in ("old", "new"):
        (tmp_path / side).mkdir()
        shutil.copy(CUBIN, tmp_path / side / "a.cubin")
    broken = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()[:200]
    (tmp_path / "new" / "b.fatbin").write_bytes(broken)
    assert main(["diff", str(tmp_path / "old"), str(tmp_path / "new")]) == 3
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "could not be read: b.fatbin; else the same device code: 1 library, 1 image"
    assert second.startswith(f"not read: {tmp_path / 'new' / 'b.fatbin'}: ")
    assert main(["diff", str(tmp_path / "old"), str(tmp_path / "nothing")]) == 5


def test_what_cannot_be_read_is_not_called_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.cubin"
    broken.write_bytes((FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()[:200])
    assert main(["diff", str(CUBIN), str(broken)]) == 3
    assert capsys.readouterr().out.splitlines()[0] == "could not be read: broken.cubin; nothing was compared"
    assert main(["diff", str(CUBIN), str(tmp_path / "nothing"), "--json"]) == 5
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("diff")))
    assert [item["path"] for item in document["unread"]] == [str(tmp_path / "nothing")]
    assert (document["exit_code"], document["libraries"]) == (5, [])


def test_a_side_without_device_code_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(CUBIN), str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith(f"no device code in {tmp_path}; lost: {CUBIN.name}")


def test_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "fatpack.diff/1"


def test_results_can_be_pickled_and_compared() -> None:
    import pickle

    found = fatpack.diff(CUBIN, OTHER, kernels=True)
    assert pickle.loads(pickle.dumps(found)) == found
    assert isinstance(found, fatpack.DiffResult)


def test_a_damaged_program_that_demangles_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from fatpack import demangling

    monkeypatch.setattr(demangling, "_by_package", lambda names: None)
    assert demangling.demangle(["_Z5scalePfi", "plain", "_Z"]) == {"_Z5scalePfi": "scale(float*, int)"}
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(fatpack.Unsupported, match=r"pip install cxxfilt"):
        demangling.demangle(["_Z5scalePfi"])
    assert demangling.demangle(["plain"]) == {}


def test_without_a_demangler_one_sentence_says_so_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cxxfilt", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["diff", str(CUBIN), str(tmp_path / "not read"), "--kernels", "--demangle"]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "nothing here demangles names of C++" in line
    assert "pip install cxxfilt" in line


def test_kernels_that_need_more_come_before_others(tmp_path: Path) -> None:
    kernels = (
        KernelDiff("changed", "a"),
        KernelDiff("changed", "b", (("code_size", 30721, 30722),)),
        KernelDiff("changed", "c", (("registers", 10, 12),)),
        KernelDiff("lost", "d"),
    )
    arch = ArchDiff("sm_90", "cubin", "cuda", 1, 1, changed=1, kernels=kernels)
    library = LibraryDiff("both", "x.so", "x.so", "x.so", 1, 1, archs=(arch,))
    lines = list(render_diff(DiffResult("old", "new", (library,), with_kernels=True)))
    assert [line.split()[1] for line in lines[-4:]] == ["d", "c", "b", "a"]
    assert "code 30721 B → 30722 B" in lines[-2]


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


def test_members_without_a_container_are_distinguished(tmp_path: Path) -> None:
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


def with_images(name: str, *digests: bytes) -> LibraryFacts:
    images = tuple(
        ImageFacts(f"0.{at}", (f"0.{at}", "", at), "sm_80", "cubin", "cuda", 1, 1, digest)
        for at, digest in enumerate(digests)
    )
    return library(name).replace(images=images)


def paths(old: list[LibraryFacts], new: list[LibraryFacts]) -> set[tuple[str | None, str | None]]:
    pairs = {(a and a.path, b and b.path) for a, b in match_libraries(old, new)}
    assert pairs == {(a and a.path, b and b.path) for b, a in match_libraries(new, old)}
    return pairs


def test_of_several_libraries_the_most_alike_are_matched() -> None:
    """Two new versions of one, and names that stand in several folders."""
    old = [with_images("lib/libx.so.1", b"a", b"b")]
    new = [with_images("lib/libx.so.2", b"a", b"b"), with_images("lib/libx.so.3", b"a", b"c")]
    assert paths(old, new) == {("lib/libx.so.1", "lib/libx.so.2"), (None, "lib/libx.so.3")}
    new = [with_images("lib/libx.so.2", b"c", b"d"), with_images("lib/libx.so.3", b"a", b"d")]
    assert paths(old, new) == {("lib/libx.so.1", "lib/libx.so.3"), (None, "lib/libx.so.2")}
    old = [with_images("a/x/libk.so", b"1"), with_images("a/y/libk.so", b"2")]
    new = [with_images("b/x/libk.so", b"3"), with_images("b/y/libk.so", b"4")]
    assert paths(old, new) == {("a/x/libk.so", "b/x/libk.so"), ("a/y/libk.so", "b/y/libk.so")}


def test_the_same_content_is_matched_wherever_it_went() -> None:
    old = [with_images("a/one.so", b"1"), with_images("a/two.so", b"2")]
    new = [with_images("b/three.so", b"2"), with_images("b/four.so", b"1")]
    assert paths(old, new) == {("a/one.so", "b/four.so"), ("a/two.so", "b/three.so")}
    copies = [with_images("c/one.so", b"1"), with_images("c/two.so", b"1"), with_images("c/three.so", b"1")]
    assert [b and b.path for a, b in match_libraries(copies, new[1:]) if a is not None].count("b/four.so") == 1
    moved = [each.replace(path=f"d{each.path}", parts=("d", *each.parts)) for each in copies]
    assert paths(copies, moved) == {(each.path, f"d{each.path}") for each in copies}


def test_a_library_that_moved_is_named_with_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("old/lib", "old/other", "new/lib64", "new/other"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(CUBIN, tmp_path / "old/lib/libk.so")
    data = (FIXTURES / "cuda_fatbin/recorded/v130_none.fatbin").read_bytes()
    (tmp_path / "new/lib64/libk.so").write_bytes(data)
    for side in ("old", "new"):
        shutil.copy(OTHER, tmp_path / side / "other/libz.so")
    found = fatpack.diff(tmp_path / "old", tmp_path / "new")
    assert [(item.name, item.old_name) for item in found.libraries] == [
        ("lib64/libk.so", "lib/libk.so"),
        ("other/libz.so", "other/libz.so"),
    ]
    main(["diff", str(tmp_path / "old"), str(tmp_path / "new")])
    assert "lib64/libk.so (was lib/libk.so): file" in capsys.readouterr().out


@pytest.mark.parametrize("compressed", [False, True])
def test_what_moved_is_reported_inside_something_compressed_too(tmp_path: Path, compressed: bool) -> None:
    """Of a container that is compressed as a whole, images are compared by their contents."""
    for name, order in (("old", "ab"), ("new", "ba")):
        images = [
            fatpack.ImageFile(FIXTURES / "kernels" / f"needs.{word}.hsaco", id=f"hip-amdgcn-amd-amdhsa--{arch}")
            for word, arch in (("v5.gfx1100", "gfx1100"), ("v6.gfx90a", "gfx90a"))
        ]
        options = fatpack.BundleOptions(compression="zstd" if compressed else None)
        fatpack.pack(images if order == "ab" else images[::-1], tmp_path / name, options=options, format="bundle")
    assert (tmp_path / "old").read_bytes() != (tmp_path / "new").read_bytes()
    found = fatpack.diff(tmp_path / "old", tmp_path / "new")
    assert "moved" in found.kinds
    assert not {"lost", "added", "changed"} & set(found.kinds)


def test_the_same_bytes_stored_as_another_kind_are_another_image(tmp_path: Path) -> None:
    text = PTX.encode() + b"\0"
    for old_kind, new_kind, image in (
        (fatbin.PTX, fatbin.RELOCATABLE_PTX, text),
        (fatbin.ELF, fatbin.LTOIR, cubin(75, ["k"])),
        (fatbin.ELF, 0x1000, cubin(75, ["k"])),
    ):
        sides = [tmp_path / "old.fatbin", tmp_path / "new.fatbin"]
        for path, kind in zip(sides, (old_kind, new_kind), strict=True):
            path.write_bytes(fatbin.fatbin(fatbin.entry(image, kind, sm=75, options=b"")))
        found = fatpack.diff(*sides)
        assert {"lost", "added"} <= set(found.kinds), new_kind


def test_bytes_that_may_have_been_a_container_are_not_the_same(tmp_path: Path) -> None:
    data = container("80")
    sides = [tmp_path / "old.so", tmp_path / "new.so"]
    for path, more in zip(sides, (b"", b"\xff" * 64), strict=True):
        path.write_bytes(linked_elf.build([data, data + more]).data)
    found = fatpack.diff(*sides)
    assert (found.verdict, found.exit_code) == ("unreadable", 1)  # FP1002 is a warning
    assert [(item.side, "FP1002" in item.problem) for item in found.unread] == [("new", True)]


def test_what_was_not_looked_into_is_reported_of_each_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = [tmp_path / "old", tmp_path / "new"]
    for path in sides:
        path.mkdir()
        (path / "x.so").write_bytes(linked_elf.build([container("80")]).data)
    (sides[1] / "link.so").symlink_to("x.so")
    found = fatpack.diff(*sides)
    assert (found.old_unlooked.links, found.new_unlooked.links) == (0, 1)
    jsonschema.validate(found.to_dict(), json.loads(schema_text("diff")))
    assert main(["diff", *map(str, sides)]) == 0
    assert f"{sides[1]}: skipped: 1 link" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("grown", "deltas", "said"),
    [
        (1_000_000, {"sm_90": 1_000_000}, "+1 MB, all sm_90"),
        (1_000_000, {"sm_90": 960_000}, "+1 MB, all sm_90"),  # the rest is padding
        (1_000_000, {"sm_90": 900_000, "sm_80": 90_000}, "+1 MB, most of it sm_90"),
        (1_000_000, {"sm_90": 500_000, "sm_80": 500_000}, "+1 MB"),
        (1_000_000, {"sm_90": 200_000}, "+1 MB"),  # code of the host came
        (1_000_000, {"sm_90": 1_100_000, "sm_80": -100_000}, "+1 MB, most of it sm_90"),
        (1_000_000, {"sm_120": 2_300_000, "sm_60": -1_300_000}, "+1 MB: sm_120 +2.3 MB, others -1.3 MB"),
        (1_000_000, {"sm_120": 1_300_000, "sm_100": 1_000_000, "sm_60": -1_300_000}, "+1 MB"),
        (-1_000_000, {"sm_60": -2_300_000, "sm_120": 1_300_000}, "-1 MB: sm_60 -2.3 MB, others +1.3 MB"),
        (-1_000_000, {"sm_60": -1_000_000}, "-1 MB, all sm_60"),
        (-4096, {"sm_80": -7580, "compute_80": -937}, "-4.1 kB"),  # a file loses whole pages
        (1_000_000, {"sm_60": -500_000}, "+1 MB"),
        (1_000_000, {}, "+1 MB"),
    ],
)
def test_where_bytes_came_from_is_a_share_of_what_came(grown: int, deltas: dict[str, int], said: str) -> None:
    base = 10_000_000
    archs = tuple(
        ArchDiff(arch, "cubin", "cuda", 1, 1, old=CodeSizes(base, base), new=CodeSizes(base + delta, base + delta))
        for arch, delta in deltas.items()
    )
    library = LibraryDiff("both", "x.so", "old/x.so", "new/x.so", base, base + grown, archs=archs)
    assert next(render_diff(DiffResult("old", "new", (library,)))).partition(";")[0] == said
