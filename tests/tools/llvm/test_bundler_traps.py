"""Cases in which clang-offload-bundler 22 loses images, confuses them or crashes, and the stand-in does not.

Every row of ``docs/tools/clang-offload-bundler.md``.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.builders.archive import GNU, member
from tests.builders.elf import device_object
from tests.reference import llvm_tool, run
from tests.tools.llvm.bundler import GFX90A, GFX906, HOST, NAME, arguments_of, ran, written

from fatpack.main import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with some inputs that needs no reference tool."""
    monkeypatch.chdir(tmp_path)
    Path("host").write_bytes(b"host code\n")
    Path("a").write_bytes(b"first device")
    Path("b").write_bytes(b"second device")
    return tmp_path


GFX940, GFX941 = (f"hip-amdgcn-amd-amdhsa--gfx{number}" for number in (940, 941))


def test_processors_that_llvm_does_not_know_are_kept_apart(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert ran(f"-type=bc -targets=HOST,{GFX940},{GFX941} -input=host -input=a -input=b -output=x", capfdbinary)[0] == 0
    listed = ran("-type=bc -list -input=x", capfdbinary)[1]
    assert sorted(listed.split()) == [GFX940, GFX941, f"{HOST}-"]
    assert ran(f"-type=bc -unbundle -targets={GFX940} -input=x -output=-", capfdbinary)[1] == "first device"
    assert ran(f"-type=bc -unbundle -targets={GFX941} -input=x -output=-", capfdbinary)[1] == "second device"
    code, _, error = ran("-type=bc -unbundle -targets=hip-amdgcn-amd-amdhsa--gfx9999 -input=x -output=y", capfdbinary)
    assert (code, error) == (1, f"{NAME}: error: Can't find bundles for hip-amdgcn-amd-amdhsa--gfx9999\n")
    assert not Path("y").exists()
    # Features of theirs count as those of known processors do.
    assert ran(f"-type=bc -unbundle -targets={GFX940}:xnack+ -input=x -output=-", capfdbinary)[1] == "first device"


def test_unknown_processors_conflict_like_known_ones(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, _, error = ran(f"-type=bc -targets={GFX940},{GFX940}:xnack+ -input=a -input=b -output=x", capfdbinary)
    text = f"Cannot bundle inputs with conflicting targets: '{GFX940}' and '{GFX940}:xnack+'"
    assert (code, error) == (1, f"{NAME}: error: {text}\n")


@pytest.mark.reference
def test_what_llvm_stored_without_its_processor_is_found_again(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run(NAME, *arguments_of(f"-type=bc -targets=HOST,{GFX940} -input=host -input=a -output=x"))
    assert ran(f"-type=bc -unbundle -targets={GFX940} -input=x -output=-", capfdbinary)[1] == "first device"
    assert ran("-type=bc -unbundle -targets=GFX906 -input=x -output=y", capfdbinary)[0] == 1


@pytest.mark.reference
def test_llvm_finds_what_was_stored_with_a_processor_new_to_it(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert ran(f"-type=bc -targets=HOST,{GFX940} -input=host -input=a -output=x", capfdbinary)[0] == 0
    run(NAME, *arguments_of(f"-type=bc -unbundle -targets={GFX940} -input=x -output=y"))
    assert Path("y").read_bytes() == b"first device"


def test_a_processor_in_the_place_of_the_environment_is_kept(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """IDs that HIP of 2020 wrote, and that users still type."""
    old = [f"hip-amdgcn-amd-amdhsa-gfx{number}" for number in (900, 906)]
    assert ran(f"-type=bc -targets=HOST,{','.join(old)} -input=host -input=a -input=b -output=x", capfdbinary)[0] == 0
    listed = ran("-type=bc -list -input=x", capfdbinary)[1]
    assert sorted(listed.split()) == ["hip-amdgcn-amd-amdhsa--gfx900", GFX906, f"{HOST}-"]
    assert ran(f"-type=bc -unbundle -targets={old[1]} -input=x -output=-", capfdbinary)[1] == "second device"


@pytest.mark.parametrize("number", range(4))
def test_old_ids_of_four_and_five_parts_do_not_hide_others(
    number: int, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    old = ["host-x86_64-unknown-linux", "hip-amdgcn-amd-amdhsa-gfx803", GFX906, "hip-amdgcn-amd-amdhsa-gfx90a"]
    typed = ["host-x86_64-unknown-linux--", "hip-amdgcn-amd-amdhsa--gfx803", GFX906, GFX90A]
    Path("x").write_bytes(written(old, [b"0", b"1", b"2", b"3"]))
    assert ran(f"-type=bc -unbundle -targets={typed[number]} -input=x -output=-", capfdbinary) == (0, str(number), "")


def test_two_spellings_of_one_target_are_refused(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    twice = f"-targets={GFX906},hip-amdgcn-amd-amdhsa-unknown-gfx906"
    refused = (1, "", f"{NAME}: error: Duplicate targets are not allowed\n")
    assert ran(f"-type=bc {twice} -input=a -input=b -output=x", capfdbinary) == refused
    Path("x").write_bytes(written([GFX906], [b"1"]))
    assert ran(f"-type=bc -unbundle {twice} -input=x -output=y -output=z", capfdbinary) == refused
    assert not Path("y").exists()


def test_an_alignment_of_0_is_refused_where_it_matters(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    text = "for the --bundle-align option: '0' value invalid for uint argument!"
    line = "-targets=GFX906 -input=a -output=x -bundle-align=0"
    assert ran(f"-type=bc {line}", capfdbinary) == (1, "", f"{NAME}: error: {text}\n")
    assert not Path("x").exists()
    assert ran(f"-type=ii {line}", capfdbinary)[0] == 0
    digits = "9" * 5000
    text = f"for the --bundle-align option: '{digits}' value invalid for uint argument!"
    assert text in ran(f"-type=bc -targets=GFX906 -input=a -output=y -bundle-align={digits}", capfdbinary)[2]


CUT = f"\n// __CLANG_OFFLOAD_BUNDLE____START__ {HOST}-\nhost\n// __CLANG_OFFLOAD_BUNDLE____END__ {HOST}-\n"
CUT += f"\n// __CLANG_OFFLOAD_BUNDLE____START__ {GFX906}\ncut"


def test_text_without_its_last_line_is_listed_and_not_handed_out(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    Path("x").write_text(CUT)
    code, listed, error = ran("-type=ii -list -input=x", capfdbinary)
    assert (code, listed.split()) == (1, [f"{HOST}-", GFX906])
    assert "no END line" in error
    code, _, error = ran("-type=ii -unbundle -targets=GFX906 -input=x -output=y", capfdbinary)
    assert (code, "no END line" in error, Path("y").exists()) == (1, True, False)
    code, got, error = ran("-type=ii -unbundle -targets=HOST -input=x -output=-", capfdbinary)
    assert (code, got) == (0, "host")
    assert error.startswith(f"{NAME}: warning: ")


def test_text_that_holds_marker_lines_comes_out_whole(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    inner = CUT[:-3] + f"in\n// __CLANG_OFFLOAD_BUNDLE____END__ {GFX906}\n"
    Path("inner").write_text(inner)
    assert ran("-type=ii -targets=SM70,HOST -input=inner -input=host -output=x", capfdbinary)[0] == 0
    assert ran("-type=ii -unbundle -targets=SM70 -input=x -output=-", capfdbinary)[1] == inner


@pytest.mark.parametrize("size", range(24, 300, 9))
def test_a_cut_bundle_is_an_error_and_keeps_what_is_whole(
    size: int, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    data = written([f"{HOST}-", GFX906, GFX90A], [b"h" * 40, b"1" * 40, b"2" * 40])
    cut = data[: min(size, len(data) - 1)]
    Path("x").write_bytes(cut)
    code, listed, error = ran("-type=bc -list -input=x", capfdbinary)
    assert code == 1
    assert error.startswith(f"{NAME}: error: ")
    whole = {f"{HOST}-": b"h", GFX906: b"1", GFX90A: b"2"}
    assert sorted(listed.split()) == sorted(key for key, content in whole.items() if content * 40 in cut)
    code, got, error = ran("-type=bc -unbundle -targets=GFX906 -input=x -output=-", capfdbinary)
    assert (code, got) == ((0, "1" * 40) if b"1" * 40 in cut else (1, ""))
    assert ": warning: " in error if code == 0 else "Can't find bundles for" in error or "needs 32 bytes" in error


def test_bytes_after_a_compressed_bundle_do_not_matter(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert ran("-type=bc -compress -targets=HOST,GFX906 -input=host -input=a -output=x", capfdbinary)[0] == 0
    Path("x").write_bytes(Path("x").read_bytes() + bytes(100))
    assert ran("-type=bc -unbundle -targets=GFX906 -input=x -output=-", capfdbinary)[1] == "first device"


def test_nothing_is_written_unless_everything_is(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("x").write_bytes(written([f"{HOST}-", GFX906, GFX90A], [b"0", b"1", b"2"]))
    Path("old").write_bytes(b"old")
    for line in ("-targets=GFX906,SM70 -output=old -output=new", "-targets=GFX906,GFX90A -output=old -output=no/where"):
        assert ran(f"-type=bc -unbundle {line} -input=x", capfdbinary)[0] == 1
        assert ran(f"-type=bc -unbundle {line.replace('=old', '=fresh')} -input=x", capfdbinary)[0] == 1
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "host", "old", "x"]
    assert Path("old").read_bytes() == b"old"


def test_a_bundle_of_device_code_needs_no_host(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The original takes the first object for the host's and crashes."""
    Path("code.o").write_bytes(device_object().build())
    line = "-type=o -targets=GFX906,GFX90A -input=code.o -input=b"
    assert ran(f"{line} -output=x", capfdbinary)[0] == 0
    assert ran(f"{line.replace('=o ', '=bc ')} -output=y", capfdbinary)[0] == 0
    assert Path("x").read_bytes() == Path("y").read_bytes()
    assert ran("-type=o -list -input=x", capfdbinary)[1].split() == [GFX906, GFX90A]


def test_a_device_image_of_one_nul_byte_is_not_the_hosts_mark(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    Path("host.o").write_bytes(device_object().build())
    Path("nul").write_bytes(b"\0")
    line = "-type=o -targets=HOST,GFX906,SM70 -input=host.o -input=nul -input=a -output=fat.o"
    assert ran(line, capfdbinary)[0] == 0
    line = "-type=o -unbundle -targets=GFX906,SM70,HOST -input=fat.o -output=x -output=y -output=z"
    assert ran(line, capfdbinary) == (0, "", "")
    assert Path("x").read_bytes() == b"\0"
    assert Path("y").read_bytes() == b"first device"
    assert Path("z").read_bytes().startswith(b"\x7fELF")
    assert ran("-type=o -list -input=z", capfdbinary) == (0, "", "")


@pytest.mark.reference
def test_images_glued_by_a_partial_link_are_refused(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for name in ("one", "two"):
        Path(f"{name}.o").write_bytes(device_object().build())
        line = f"-type=o -targets=HOST,GFX906 -input={name}.o -input=a -output=fat-{name}.o"
        assert ran(line, capfdbinary)[0] == 0
    run("ld.lld", "-r", "-z", "muldefs", "fat-one.o", "fat-two.o", "-o", "merged.o")
    assert ran("-type=o -list -input=merged.o", capfdbinary)[1].split() == [f"{HOST}-", GFX906]
    code, _, error = ran("-type=o -unbundle -targets=HOST,GFX906 -input=merged.o -output=x -output=y", capfdbinary)
    assert code == 1
    assert f"2 fat objects were merged by a partial link, and '{GFX906}' has an image of each" in error
    assert not Path("x").exists()
    assert ran("-type=o -unbundle -targets=HOST -input=merged.o -output=x", capfdbinary)[0] == 0
    assert ran("-type=o -list -input=x", capfdbinary) == (0, "", "")
    # The original hands out both images as one file, and two NUL bytes for the host.
    run(NAME, *arguments_of("-type=o -unbundle -targets=HOST,GFX906 -input=merged.o -output=v -output=w"))
    assert (Path("v").read_bytes(), Path("w").read_bytes()) == (b"\0\0", b"first device" * 2)


def test_the_hosts_object_can_be_the_output(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The original empties it before it reads it."""
    Path("host.o").write_bytes(device_object().build())
    line = "-type=o -targets=HOST,GFX906 -input=host.o -input=a"
    assert ran(f"{line} -output=fat.o", capfdbinary)[0] == 0
    assert ran(f"{line} -output=host.o", capfdbinary)[0] == 0
    assert Path("host.o").read_bytes() == Path("fat.o").read_bytes()


def test_hosts_that_are_no_objects_we_can_edit_are_refused(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    Path("m.o").write_bytes(b"\xcf\xfa\xed\xfe" + bytes(60))
    code, _, error = ran("-type=o -targets=HOST,GFX906 -input=m.o -input=a -output=x", capfdbinary)
    assert (code, "adds none to Mach-O files; use -type=bc" in error, Path("x").exists()) == (1, True, False)


def _concatenated(folder: Path, *, junk: bytes, compress: bool) -> Path:
    """Make two bundles, for gfx900 and for gfx906, one behind the other."""
    files = []
    for number, processor in ((1, "gfx900"), (2, "gfx906")):
        for role in ("host", "device"):
            (folder / f"{role}{number}").write_text(f"{role} {number}\n")
        output = folder / f"bundle{number}"
        arguments = [f"-targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--{processor}", "-type=bc"]
        arguments += [f"-input={folder}/host{number}", f"-input={folder}/device{number}", f"-output={output}"]
        assert main(["tool", NAME, *arguments, *(["-compress"] if compress else [])]) == 0
        files.append(output.read_bytes())
    both = folder / "both"
    both.write_bytes(junk.join(files))
    return both


@pytest.mark.parametrize("version", ["22", "23"])
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("junk", [b"", bytes(4096)], ids=["adjacent", "padded"])
def test_bundles_that_follow_each_other_are_all_walked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, compress: bool, junk: bytes
) -> None:
    both = _concatenated(tmp_path, junk=junk, compress=compress)
    tool = ["tool", f"--as={version}", NAME, "-type=bc", f"-input={both}"]
    assert main([*tool, "-list"]) == 0
    listed = capsys.readouterr().out.split()
    host = "host-x86_64-unknown-linux-gnu-"
    assert sorted(listed) == sorted([host, host, "hip-amdgcn-amd-amdhsa--gfx900", "hip-amdgcn-amd-amdhsa--gfx906"])
    outputs = [tmp_path / "second", tmp_path / "first", tmp_path / "host"]
    targets = "hip-amdgcn-amd-amdhsa--gfx906,hip-amdgcn-amd-amdhsa--gfx900,host-x86_64-unknown-linux-gnu"
    assert main([*tool, "-unbundle", f"-targets={targets}", *(f"-output={output}" for output in outputs)]) == 0
    assert [output.read_text() for output in outputs] == ["device 2\n", "device 1\n", "host 1\n"]
    # As clang passes it: a target that only the second bundle has is not missing.
    arguments = ["-unbundle", "-allow-missing-bundles", "-targets=hip-amdgcn-amd-amdhsa--gfx906"]
    assert main([*tool, *arguments, f"-output={tmp_path / 'only'}"]) == 0
    assert (tmp_path / "only").read_text() == "device 2\n"


@pytest.mark.reference
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("junk", [b"", bytes(4096), b"something else"], ids=["adjacent", "padded", "junk"])
def test_bundles_that_follow_each_other_are_unbundled_as_llvm_23_does(
    tmp_path: Path, compress: bool, junk: bytes
) -> None:
    both = _concatenated(tmp_path, junk=junk, compress=compress)
    real = llvm_tool(NAME, "23")
    targets = ["hip-amdgcn-amd-amdhsa--gfx906", "hip-amdgcn-amd-amdhsa--gfx900", "host-x86_64-unknown-linux-gnu"]
    for target in targets:
        arguments = ["-type=bc", f"-input={both}", "-unbundle", f"-targets={target}", "-allow-missing-bundles"]
        theirs, ours = tmp_path / "theirs", tmp_path / "ours"
        done = subprocess.run([real, *arguments, f"-output={theirs}"], capture_output=True, check=False)
        code = main(["tool", "--as=23", NAME, *arguments, f"-output={ours}"])
        assert code == done.returncode
        if not code:
            assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("version", ["22", "23"])
def test_a_processor_in_the_place_of_the_environment_is_no_target_of_an_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("device").write_text("device\n")
    targets = "-targets=hip-amdgcn-amd-amdhsa--gfx906"
    assert main(["tool", NAME, "-type=bc", targets, "-input=device", "-output=one.bc"]) == 0
    Path("lib.a").write_bytes(GNU + member(b"one.bc/", Path("one.bc").read_bytes()))
    arguments = ["-type=a", "-unbundle", "-input=lib.a", "-output=x.a", "-hip-openmp-compatible"]
    code = main(["tool", f"--as={version}", NAME, *arguments, "-targets=openmp-amdgcn-amd-amdhsa-gfx906"])
    error = capsys.readouterr().err
    assert code == 1
    assert "error: no compatible code object found for the target 'openmp-amdgcn-amd-amdhsa--'" in error
    assert not Path("x.a").exists()
    # With the processor in its own place it is one.
    assert main(["tool", f"--as={version}", NAME, *arguments, "-targets=openmp-amdgcn-amd-amdhsa--gfx906"]) == 0
    assert Path("x.a").exists()
