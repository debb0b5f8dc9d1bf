"""Archives as users type them: members addressed, edited, inspected and extracted, also in archives of archives."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jsonschema
import pytest
from tests.builders import bitcode
from tests.builders.archive import THIN, header, member
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES
from tests.reference import run

from fatpack.binary import archive
from fatpack.io.source import BytesSource
from fatpack.testing.helpers import join_pieces

Fatpack = Callable[..., Ran]
A = "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda"
B = "--image=file=b.cubin,triple=nvptx64-nvidia-cuda,arch=sm_90,kind=cuda"


def write(path: Path, members: Sequence[tuple[str, bytes]]) -> None:
    built = archive.build_archive([(name.encode(), BytesSource(data, name).view()) for name, data in members])
    path.write_bytes(join_pieces(built))


@pytest.fixture(autouse=True)
def library(folder: Path, fatpack: Fatpack) -> Path:
    """libx.a: fat.o (sm_80, sm_90), host.o, notes.txt, fat.o again; outer.a holds it and host.o."""
    assert fatpack("pack", A, B, "-o", "both.bin", "-q").code == 0
    assert fatpack("pack", A, "-o", "one.bin", "-q").code == 0
    assert fatpack("embed", "host.o", "both.bin", "-o", "fat.o", "-q").code == 0
    fat, host = (folder / "fat.o").read_bytes(), (folder / "host.o").read_bytes()
    write(folder / "libx.a", [("fat.o", fat), ("host.o", host), ("notes.txt", b"odd"), ("fat.o", fat)])
    write(folder / "outer.a", [("libx.a", (folder / "libx.a").read_bytes()), ("host.o", host)])
    return folder / "libx.a"


def listed(fatpack: Fatpack, path: str) -> list[tuple[str, str]]:
    """Return (member, arch) of all images."""
    record = json.loads(fatpack("inspect", "--json", path).out)["files"][0]
    return [
        (f"{found['member']}{found.get('member_numbers', '')}", image["arch"])
        for found in record["containers"]
        for image in found["images"]
    ]


BOTH = [("fat.o[0]", "sm_80"), ("fat.o[0]", "sm_90"), ("fat.o[3]", "sm_80"), ("fat.o[3]", "sm_90")]


def test_members_are_listed_with_numbers_where_names_repeat(fatpack: Fatpack) -> None:
    assert listed(fatpack, "libx.a") == BOTH
    text = fatpack("inspect", "libx.a").out
    assert "  fat.o (#0) → .llvm.offloading at" in text
    assert "  fat.o (#3) → .llvm.offloading at" in text
    text = fatpack("inspect", "outer.a").out
    assert "  libx.a(fat.o) (#0)(#3) → .llvm.offloading at" in text
    assert listed(fatpack, "outer.a")[0] == ("libx.a(fat.o)[0, 0]", "sm_80")


def test_inspect_shows_one_member(fatpack: Fatpack, library: Path) -> None:
    ran = fatpack("inspect", "libx.a(fat.o:2)", "outer.a(libx.a)(host.o)")
    assert ran.code == 0
    assert ran.out.startswith("libx.a(fat.o): ELF, ")
    assert "\nouter.a(libx.a)(host.o): ELF, " in ran.out
    assert ran.out.count("sm_80") == 1
    record = json.loads(fatpack("inspect", "--json", "libx.a(#3)").out)["files"][0]
    offset = record["containers"][0]["offset"]
    assert library.read_bytes()[offset : offset + 4] == b"\x10\xff\x10\xad"


def test_addresses_of_images_in_members_are_accepted(fatpack: Fatpack, folder: Path) -> None:
    address = next(
        line.strip() for line in fatpack("inspect", "-v", "libx.a(#3)").out.splitlines() if "#offset=" in line
    )
    assert address.startswith("libx.a(fat.o)#offset=0x")
    unique = address.replace("(fat.o)", "(fat.o:2)")
    assert fatpack("extract", unique, "-o", "got.cubin", "-q").code == 0
    assert (folder / "got.cubin").read_bytes() == (folder / "a.cubin").read_bytes()
    ran = fatpack("extract", unique.replace("fat.o:2", "fat.o:1"), "-o", "x")
    assert (ran.code, "is outside the file" in ran.err) == (2, True)


def test_bytes_of_a_member_are_explained_at_their_place_in_the_file(fatpack: Fatpack, library: Path) -> None:
    at = library.read_bytes().rfind(b"\x7fELF\x02\x01\x01\x00")
    ran = fatpack("inspect", "--at", hex(at), "libx.a(#3)")
    assert ran.out.startswith(f"libx.a(fat.o) at {at:#x}: header.ident, byte 0 of 16")
    assert fatpack("inspect", "--at", "0", "libx.a(#3)").code == 2
    assert fatpack("inspect", "--bytes", "libx.a(#3)").out.startswith(f"{at:#08x}  7f 45 4c 46")


def test_extract_takes_the_images_of_one_member_and_names_them_after_it(fatpack: Fatpack, folder: Path) -> None:
    ran = fatpack("extract", "outer.a(libx.a)(fat.o:1)", "--arch=sm_90", "-d", "out", "-q")
    assert ran.out == "out/fat-nvptx64-nvidia-cuda-sm_90.1.cubin\n"
    assert (folder / ran.out.strip()).read_bytes() == (folder / "b.cubin").read_bytes()


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("libx.a(fat.o)", 2, "2 members of the name fat.o; write (fat.o:1) or (#0), "),
        ("libx.a(none.o)", 2, "libx.a has no member none.o; present are fat.o, host.o, notes.txt, fat.o"),
        ("host.o(x.o)", 2, "host.o is no archive"),
        ("none.a(x.o)", 5, "none.a(x.o): No such file"),
    ],
)
def test_addresses_that_lead_nowhere_are_refused(fatpack: Fatpack, address: str, code: int, words: str) -> None:
    for command in (["inspect", address], ["extract", address], ["remove", address, "-o", "x.a"]):
        ran = fatpack(*command)
        assert ran.code == code
        assert words in ran.err


def test_a_file_of_exactly_that_name_is_selected(fatpack: Fatpack, folder: Path) -> None:
    (folder / "libx.a(fat.o)").write_bytes((folder / "one.bin").read_bytes())
    assert listed(fatpack, "libx.a(fat.o)") == [("None", "sm_80")]


def test_remove_over_all_members(fatpack: Fatpack, folder: Path) -> None:
    ran = fatpack("remove", "libx.a", "--arch=sm_80", "-o", "slim.a")
    assert ran.code == 0
    assert "removed fat.o: 0.0 cuda nvptx64-nvidia-cuda sm_80 cubin" in ran.err
    assert listed(fatpack, "slim.a") == [("fat.o[0]", "sm_90"), ("fat.o[3]", "sm_90")]
    assert fatpack("remove", "outer.a", "-o", "none.a", "-q").code == 0
    assert listed(fatpack, "none.a") == []
    assert fatpack("inspect", "none.a").out.splitlines()[1] == "  no device code found"


def test_edits_of_one_member_leave_the_others(fatpack: Fatpack, folder: Path) -> None:
    assert fatpack("remove", "libx.a(fat.o:2)", "--arch=sm_90", "-o", "1.a", "-q").code == 0
    assert listed(fatpack, "1.a") == BOTH[:3]
    assert fatpack("replace", "libx.a(#0)", "one.bin", "-o", "2.a", "-q").code == 0
    assert listed(fatpack, "2.a") == [BOTH[0], *BOTH[2:]]
    assert fatpack("embed", "libx.a(host.o)", "one.bin", "-o", "3.a", "-q").code == 0
    assert listed(fatpack, "3.a") == [*BOTH[:2], ("host.o[1]", "sm_80"), *BOTH[2:]]
    assert fatpack("embed", "outer.a(libx.a)(host.o)", "one.bin", "-o", "4.a", "-q").code == 0
    assert ("libx.a(host.o)[0, 1]", "sm_80") in listed(fatpack, "4.a")
    parts = {name: (folder / name).read_bytes() for name in ("fat.o", "host.o", "one.bin")}
    assert fatpack("embed", "host.o", "one.bin", "-o", "host1.o", "-q").code == 0
    write(folder / "expected.a", [
        ("fat.o", parts["fat.o"]), ("host.o", (folder / "host1.o").read_bytes()), ("notes.txt", b"odd"),
        ("fat.o", parts["fat.o"]),
    ])  # fmt: skip
    assert (folder / "3.a").read_bytes() == (folder / "expected.a").read_bytes()


def test_in_place_changes_the_archive_and_keeps_its_mode(fatpack: Fatpack, library: Path) -> None:
    library.chmod(0o640)
    assert fatpack("remove", "libx.a(fat.o:1)", "--in-place", "-q").code == 0
    assert listed(fatpack, "libx.a") == BOTH[2:]
    assert stat.S_IMODE(library.stat().st_mode) == 0o640


def test_the_archive_is_never_overwritten_by_o(fatpack: Fatpack, library: Path) -> None:
    before = library.read_bytes()
    assert fatpack("remove", "libx.a(fat.o:1)", "-o", "libx.a", "--force").code == 2
    assert library.read_bytes() == before


def test_a_dry_run_names_the_members(fatpack: Fatpack) -> None:
    ran = fatpack("remove", "libx.a", "--dry-run")
    assert ran.err.count("would remove fat.o: ") == 4
    assert "4 images; libx.a: 37.5 kB → 4.14 kB" in ran.err


def test_an_archive_needs_a_member_to_be_embedded_into(fatpack: Fatpack) -> None:
    ran = fatpack("embed", "libx.a", "one.bin", "-o", "x.a")
    assert ran.code == 4
    assert "write libx.a(MEMBER)" in ran.err


def test_a_member_is_packed_into(fatpack: Fatpack) -> None:
    """The advice for an archive as the host is true."""
    ran = fatpack("pack", B, "--host=libx.a", "-o", "new.a")
    assert "write libx.a(MEMBER)" in ran.err
    assert fatpack("pack", B, "--host=libx.a(host.o)", "-o", "new.a").code == 0
    assert listed(fatpack, "new.a") == [*BOTH[:2], ("host.o[1]", "sm_90"), *BOTH[2:]]
    assert fatpack("pack", B, "--host=libx.a(host.o)", "-q").code == 0
    assert listed(fatpack, "libx.offload.a") == listed(fatpack, "new.a")


def test_an_archive_from_a_pipe_has_members_too(folder: Path, library: Path) -> None:
    program = f"import sys; sys.path[:0] = {sys.path!r}; from fatpack.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "extract", "--arch=sm_80", "-o", "-", "--", "-(fat.o:2)"]
    done = subprocess.run(command, input=library.read_bytes(), capture_output=True, cwd=folder)
    assert (done.returncode, done.stdout) == (0, (folder / "a.cubin").read_bytes())


def test_members_of_every_kind_are_looked_into(fatpack: Fatpack, folder: Path) -> None:
    """Members of heterogeneous archives: objects, bundles, offload binaries, bitcode and device objects."""
    names = {
        "f1-openmp-amdgcn-amd-amdhsa--gfx906f1.bc": FIXTURES / "bitcode" / "clang-22.bc",
        "pkg.bin": FIXTURES / "offload_binary" / "llvm-22-four.bin",
        "hip.bundle": FIXTURES / "clang_bundle" / "llvm-22-hip.bundle",
        "hip.o": FIXTURES / "elf" / "clang-22-hip.o",
        "rdc.o": FIXTURES / "elf" / "clang-22-hip-rdc-bundler.o",
        "win.obj": FIXTURES / "coff" / "clang-22-x86_64.obj",
        "f1-cuda-nvptx64-nvidia-cuda--sm_80.o": folder / "a.cubin",
        "k.ptx": folder / "k.ptx",
    }
    write(folder / "mixed.a", [(name, path.read_bytes()) for name, path in names.items()])
    expected = []
    for number, (name, path) in enumerate(names.items()):
        expected += [(f"{name}[{number}]", arch) for _, arch in listed(fatpack, str(path))]
    assert listed(fatpack, "mixed.a") == expected
    assert {name.partition("[")[0] for name, _ in expected} == set(list(names)[:6])
    record = json.loads(fatpack("inspect", "--json", "mixed.a").out)["files"][0]
    assert [(item["member"], item["form"], item["arch"]) for item in record["member_images"]] == [
        ("f1-cuda-nvptx64-nvidia-cuda--sm_80.o", "cubin", "sm_80"),
        ("k.ptx", "ptx", "sm_80"),
    ]


def test_members_that_are_images_themselves_are_shown_with_their_kernels(fatpack: Fatpack, folder: Path) -> None:
    cubin = (folder / "a.cubin").read_bytes()
    write(folder / "in.a", [("k.ptx", (folder / "k.ptx").read_bytes())])
    write(folder / "device.a", [("a.o", cubin), ("a.o", cubin), ("in.a", (folder / "in.a").read_bytes()), ("t", b"t")])
    ran = fatpack("inspect", "device.a")
    assert ran.code == 0
    lines = [line.split() for line in ran.out.splitlines()[1:]]
    assert [line[:6] for line in lines[:2]] == [
        ["a.o", f"(#{number}):", "nvptx64-nvidia-cuda", "sm_80", "cubin", "at"] for number in (0, 1)
    ]
    assert lines[2][:4] == ["in.a(k.ptx):", "nvptx64-nvidia-cuda", "compute_80", "ptx"]
    assert "3 kernels: add_one, " in ran.out
    assert "no device code" not in ran.out
    assert len(lines) == 3
    document = json.loads(fatpack("inspect", "--json", "device.a").out)
    jsonschema.validate(document, json.loads(fatpack("inspect", "--schema").out))
    record = document["files"][0]
    assert [item["member_numbers"] for item in record["member_images"]] == [[0], [1], [2, 0]]
    verbose = fatpack("inspect", "-v", "device.a").out
    address = [line.strip() for line in verbose.splitlines() if "#offset=" in line][1]
    assert fatpack("extract", address, "-o", "got.cubin", "-q").code == 0
    assert (folder / "got.cubin").read_bytes() == cubin
    assert fatpack("inspect", "device.a(a.o:1)").out.startswith("device.a(a.o): cubin sm_80")


def test_members_that_a_limit_leaves_out_are_reported(
    fatpack: Fatpack, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fatpack.limits.CONTAINERS", 1)
    write(folder / "device.a", [(name, (folder / "a.cubin").read_bytes()) for name in ("a.o", "b.o", "c.o")])
    ran = fatpack("inspect", "device.a")
    assert (ran.code, "a.o:" in ran.out, "b.o:" in ran.out) == (3, True, False)
    assert ran.out.count("error FP1005") == 1
    assert "use --limit containers=N" in ran.out


def test_bitcode_of_the_host_is_no_device_image(fatpack: Fatpack, folder: Path) -> None:
    triples = {"lto.o": "x86_64-unknown-linux-gnu", "device.o": "amdgcn-amd-amdhsa", "spirv.o": "spirv64-unknown"}
    write(folder / "lto.a", [(name, bitcode.of_triple(triple)) for name, triple in triples.items()])
    record = json.loads(fatpack("inspect", "--json", "lto.a").out)["files"][0]
    assert [item["member"] for item in record["member_images"]] == ["device.o", "spirv.o"]


def test_thin_archives_are_read_and_not_edited(fatpack: Fatpack, folder: Path) -> None:
    names = member(b"//", b"fat.o/\nlibx.a/\n")
    data = THIN + names
    for at, name in ((0, "fat.o"), (7, "libx.a")):
        data += header(b"/%d" % at, (folder / name).stat().st_size)
    (folder / "thin.a").write_bytes(data)
    found = listed(fatpack, "thin.a")
    assert found[:3] == [("fat.o[0]", "sm_80"), ("fat.o[0]", "sm_90"), ("libx.a(fat.o)[1, 0]", "sm_80")]
    assert listed(fatpack, "thin.a(libx.a)(fat.o:2)") == [("None", "sm_80"), ("None", "sm_90")]
    assert fatpack("extract", "thin.a(fat.o)", "--arch=sm_90", "-o", "x.cubin", "-q").code == 0
    assert (folder / "x.cubin").read_bytes() == (folder / "b.cubin").read_bytes()
    for arguments in (["remove", "thin.a"], ["embed", "thin.a(fat.o)", "one.bin"]):
        ran = fatpack(*arguments, "-o", "x.a")
        assert ran.code == 4
        assert "a thin archive holds no members to exchange; edit the files it names" in ran.err


def compiled(folder: Path, target: str, extension: str, sources: Mapping[str, str], *options: str) -> list[str]:
    names = []
    for name, text in sources.items():
        (folder / f"{name}.c").write_text(text)
        names.append(f"{name}.{extension}")
        run("clang", f"--target={target}", "-c", *options, f"{name}.c", "-o", names[-1], cwd=folder)
    return names


SOURCES = {
    "one": "int one(void) { return 1; }",
    "two": "int one(void); int two(void) { return one() + 1; } int common;",
    "three": "int three(void) { return 3; }",
}
MAIN = {"main": "int two(void); int three(void); int start(void) { return two() + three(); }"}


@pytest.mark.sweep(3)
@pytest.mark.reference
@pytest.mark.parametrize(
    ("archiver", "options"),
    [
        ("llvm-ar", ["qcD"]),
        ("llvm-ar", ["--format=bsd", "qcD"]),
        ("llvm-ar", ["--format=coff", "qcD"]),
        ("llvm-ar", ["qcSD"]),
        ("ar", ["qcD"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_the_result_is_what_the_archiver_makes_of_the_changed_members(
    fatpack: Fatpack, folder: Path, archiver: str, options: list[str]
) -> None:
    names = compiled(folder, "x86_64-linux-gnu", "o", SOURCES)
    run(archiver, *options, "lib.a", *names, "a.cubin", cwd=folder)
    assert fatpack("embed", "lib.a(two.o)", "both.bin", "-o", "1.a", "-q").code == 0
    assert fatpack("embed", "1.a(one.o)", "one.bin", "-o", "2.a", "-q").code == 0
    assert fatpack("remove", "2.a", "--arch=sm_80", "-o", "3.a", "-q").code == 0
    (folder / "changed").mkdir()
    for number, steps in enumerate([["two.o"], ["one.o"], ["one.o", "two.o"]], 1):
        if number == 1:
            assert fatpack("embed", "two.o", "both.bin", "-o", "changed/two.o", "-q").code == 0
            (folder / "changed" / "one.o").write_bytes((folder / "one.o").read_bytes())
        if number == 2:
            assert fatpack("embed", "one.o", "one.bin", "-o", "changed/one.o", "--force", "-q").code == 0
        if number == 3:
            for name in steps:
                assert fatpack("remove", f"changed/{name}", "--arch=sm_80", "--in-place", "-q").code == 0
        (folder / "theirs.a").unlink(missing_ok=True)
        paths = [f"changed/{name}" if name in ("one.o", "two.o") else name for name in (*names, "a.cubin")]
        run(archiver, *options, "theirs.a", *paths, cwd=folder)
        assert (folder / f"{number}.a").read_bytes() == (folder / "theirs.a").read_bytes(), number


@pytest.mark.reference
@pytest.mark.parametrize("linker", ["ld.lld", "ld"])
def test_an_edited_archive_links_to_the_same_program(fatpack: Fatpack, folder: Path, linker: str) -> None:
    names = compiled(folder, "x86_64-linux-gnu", "o", SOURCES)
    compiled(folder, "x86_64-linux-gnu", "o", MAIN)
    run("llvm-ar", "qcD", "lib.a", *names, cwd=folder)
    assert fatpack("embed", "lib.a(one.o)", "both.bin", "-o", "fat.a", "-q").code == 0
    assert fatpack("remove", "fat.a", "-o", "slim.a", "-q").code == 0
    for library in ("lib.a", "fat.a", "slim.a"):
        run(linker, "main.o", library, "-e", "start", "-o", f"{library}.out", cwd=folder)
    plain, fat, slim = ((folder / f"{library}.out").read_bytes() for library in ("lib.a", "fat.a", "slim.a"))
    assert plain == fat == slim


@pytest.mark.reference
def test_an_edited_import_library_links_to_the_same_program(fatpack: Fatpack, folder: Path) -> None:
    names = compiled(folder, "x86_64-pc-windows-msvc", "obj", SOURCES)
    compiled(folder, "x86_64-pc-windows-msvc", "obj", MAIN)
    run("llvm-lib", "/out:plain.lib", *names, cwd=folder)
    assert fatpack("embed", "plain.lib(one.obj)", "both.bin", "-o", "fat.lib", "-q").code == 0
    assert fatpack("remove", "fat.lib", "-o", "slim.lib", "-q").code == 0
    for library in ("plain.lib", "fat.lib", "slim.lib"):
        options = ["/entry:start", "/subsystem:console", "/nodefaultlib", "/brepro", f"/out:{library}.exe"]
        run("lld-link", "main.obj", library, *options, cwd=folder)
    plain, fat, slim = ((folder / f"{library}.exe").read_bytes() for library in ("plain.lib", "fat.lib", "slim.lib"))
    assert plain == fat == slim


def test_members_that_are_not_looked_at_are_reported(folder: Path, fatpack: Fatpack) -> None:
    """Thin archives name files, and those outside of their folder are not opened."""
    (folder / "in").mkdir()
    (folder / "in" / "fat.o").write_bytes((folder / "fat.o").read_bytes())
    run("llvm-ar", "rcT", "thin.a", "fat.o", "../fat.o", cwd=folder / "in")
    warning = "fatpack: warning FP2104: in/thin.a: member ../fat.o: an absolute path"
    for command in (["extract", "-d", "out"], ["convert", "-o", "x"]):
        ran = fatpack(command[0], "in/thin.a", *command[1:])
        assert (ran.code, ran.err.count(warning)) == (0, 1)
        assert warning not in fatpack(command[0], "in/thin.a", *command[1:], "-q", "-f").err
    run("llvm-ar", "rcT", "elsewhere.a", "../fat.o", cwd=folder / "in")
    ran = fatpack("remove", "in/elsewhere.a", "-o", "y")
    assert (ran.code, "no image to remove; member ../fat.o: an absolute path" in ran.err) == (1, True)
    ran = fatpack("remove", "in/thin.a", "-o", "y")
    assert (ran.code, "edit the files it names, then run ranlib on it" in ran.err) == (4, True)


def test_a_member_that_no_room_reads_is_searched(folder: Path, fatpack: Fatpack) -> None:
    fat = (folder / "fat.o").read_bytes()
    write(folder / "mixed.a", [("damaged.o", b"\x7e" + fat[1:]), ("fat.o", fat)])
    places = [archs for _, archs in listed(fatpack, "mixed.a")]
    alone = [archs for _, archs in listed(fatpack, "fat.o")]
    assert places == [*alone, *alone]
    ran = fatpack("remove", "mixed.a", "--arch=sm_80", "-o", "x.a")
    assert (ran.code, (folder / "x.a").exists()) == (4, False)
    assert "mixed.a(damaged.o): this is a file of an unknown format" in ran.err
