"""The law of isolation: one bad part takes nothing away from its neighbours, in any host and for any command.

A bad unit is planted between two good ones. Whatever is done with the file, the good ones give what they give without
it, it is reported with its code and place, and the exit code is 3, or 4 if it is only not supported.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard
from tests.builders import archive, bitcode, cir, coff, elf, fatbin, macho, pe
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack.main import main

FORMATS = ("llvm-offload-binary", "clang-offload-bundle", "cuda-fatbin", "cir-offload-container", "syclbin")
ID = "hip-amdgcn-amd-amdhsa--gfx90a"
DAMAGED, UNSUPPORTED = 3, 4


class Bad(NamedTuple):
    """A change that damages a sound container, and the exit code for the result.

    ``is_listed``: its images are listed with a warning, it can be copied as it is, and nothing can be taken out of it.
    """

    damage: Callable[[bytes], bytes]
    code: int
    is_listed: bool = False


def _set(data: bytes, at: int, *values: int) -> bytes:
    return data[:at] + bytes(values) + data[at + len(values) :]


def _cut(data: bytes) -> bytes:
    return data[: len(data) * 3 // 4]


BAD: dict[tuple[str, str], Bad] = {
    ("llvm-offload-binary", "cut"): Bad(_cut, DAMAGED),
    ("llvm-offload-binary", "size"): Bad(lambda data: _set(data, 14, 0x7F), DAMAGED),
    ("llvm-offload-binary", "unsupported"): Bad(lambda data: _set(data, 4, 9), UNSUPPORTED),
    ("clang-offload-bundle", "cut"): Bad(_cut, DAMAGED),
    ("clang-offload-bundle", "size"): Bad(lambda data: _set(data, 46, 0x7F), DAMAGED),
    # A compressed bundle of version 3: magic, version, and an unknown method.
    ("clang-offload-bundle", "unsupported"): Bad(lambda data: b"CCOB\3\0\x63\0" + data[8:], UNSUPPORTED),
    ("cuda-fatbin", "cut"): Bad(_cut, DAMAGED),
    ("cuda-fatbin", "size"): Bad(lambda data: _set(data, 14, 0x7F), DAMAGED),
    ("cuda-fatbin", "unsupported"): Bad(lambda data: b"\x01\x5a\xe5\x1e" + data[4:], UNSUPPORTED),
    ("syclbin", "cut"): Bad(_cut, DAMAGED),
    ("syclbin", "size"): Bad(lambda data: _set(data, 14, 0x7F), DAMAGED),
    # The value of sycl_format_version among the strings.
    ("syclbin", "unsupported"): Bad(lambda data: data.replace(b"\x002\x00", b"\x003\x00"), UNSUPPORTED),
    ("cir-offload-container", "cut"): Bad(_cut, DAMAGED),
    ("cir-offload-container", "unsupported"): Bad(
        lambda _: _set((FIXTURES / "cir" / "mlir-22-v6.mlirbc").read_bytes(), 4, 0xF9, 0x4D),
        UNSUPPORTED,
        is_listed=True,
    ),
}


def good(format: str, mark: int) -> bytes:
    """Return a sound container of a format; another mark gives another content."""
    content = bytes([mark]) * (200 + mark)
    if format == "cuda-fatbin":
        return fatbin.fatbin(fatbin.entry(fatbin.cubin(80, code=content[:192]), sm=80))
    if format == "cir-offload-container":
        host = f'module {{\n  "cir.func"() <{{sym_name = "h{mark}"}}> ({{\n  }}) : () -> ()\n}}\n'
        return cir.combined((host, "host-x86_64-unknown-linux-gnu-"), (host.replace("h", "k"), ID))
    sink = _Sink()
    if format == "syclbin":
        library.pack([library.ImageFile(content, triple="spir64_gen", arch="pvc", offload="sycl")], sink, format=format)
        return bytes(sink.data)
    image = library.ImageFile(content, triple="amdgcn-amd-amdhsa", arch="gfx90a", offload="hip", name="image")
    library.pack([image], sink, format="offload-binary" if format == "llvm-offload-binary" else "bundle")  # type: ignore[arg-type]
    return bytes(sink.data)


class _Sink:
    """A binary file in memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)


def _elf(units: Sequence[bytes]) -> bytes:
    host = elf.device_object(b"")
    for name, unit in zip((".hip_fatbin", ".nv_fatbin", ".llvm.offloading"), units, strict=False):
        host.add(name, unit, align=8)
    return host.build()


def _coff(units: Sequence[bytes]) -> bytes:
    names = (b".hip_fatbin", b".nv_fatbin", b".llvm.offloading")
    sections = [coff.Section(name, unit) for name, unit in zip(names, units, strict=False)]
    return coff.build([coff.Section(b".text", b"\x90" * 8), *sections])


def _pe(units: Sequence[bytes]) -> bytes:
    names = (b".hip_fat", b".nv_fatb", b".llvm.of")
    return pe.build([pe.Section(name, unit) for name, unit in zip(names, units, strict=False)])


def _bitcode(units: Sequence[bytes]) -> bytes:
    globals = [bitcode.Global(1, number) for number in range(len(units))]
    # LLVM's own section takes offload binaries alone (FP1010).
    return bitcode.module(globals, [(bitcode.STRING, unit) for unit in units], sections=(b".hip_fatbin",)).bytes()


def _archive(units: Sequence[bytes]) -> bytes:
    names = (b"first/", b"second/", b"third/")
    members = (archive.member(name, unit) for name, unit in zip(names, units, strict=False))
    return archive.GNU + b"".join(members)


def _archive_of_objects(units: Sequence[bytes]) -> bytes:
    return _archive([_elf([unit]) for unit in units])


def _macho(units: Sequence[bytes]) -> bytes:
    names = ((b"__HIP", b"__hip_fatbin"), (b"__NV_CUDA", b"__nv_fatbin"), (b"__LLVM", b".llvm.offloading"))
    return macho.build([macho.Section(*name, unit) for name, unit in zip(names, units, strict=False)])


def _universal(units: Sequence[bytes]) -> bytes:
    machines = (macho.X86_64, macho.ARM64, macho.I386)
    return macho.universal([(machine, 0, _macho([unit])) for machine, unit in zip(machines, units, strict=False)])


HOSTS: dict[str, Callable[[Sequence[bytes]], bytes]] = {
    "raw": b"".join,
    "elf": _elf,
    "coff": _coff,
    "pe": _pe,
    "bitcode": _bitcode,
    "macho": _macho,
    "universal": _universal,
    "archive": _archive,
    "archive of objects": _archive_of_objects,
}


def _cases() -> Iterator[tuple[str, str, str]]:
    """Yield format, host and bad unit of each case: a file in MLIR is one container, alone or as a member."""
    for format, kind in BAD:
        for host in HOSTS:
            if format != "cir-offload-container" or host == "archive":
                yield format, host, kind


CASES = list(_cases())
each_case = pytest.mark.parametrize(("format", "host", "kind"), CASES, ids=["-".join(case) for case in CASES])


class Case:
    """Two folders with a file ``x``: without the bad unit, and with it between the good ones, or last if it is cut.

    A container that is truncated in the middle of a file of containers would extend into the next one.
    """

    def __init__(self, format: str, host: str, kind: str, tmp: Path) -> None:
        self.bad = BAD[format, kind]
        first, second = good(format, 1), good(format, 2)
        self.unit = self.bad.damage(good(format, 3))
        units = [first, second, self.unit] if host == "raw" and kind == "cut" else [first, self.unit, second]
        self.without, self.planted = tmp / "without", tmp / "planted"
        for folder, data in ((self.without, HOSTS[host]([first, second])), (self.planted, HOSTS[host](units))):
            folder.mkdir()
            (folder / "x").write_bytes(data)
        whole = (self.planted / "x").read_bytes()
        #: where the bad unit lies; the strings of bitcode lie at any bit
        self.place = whole.find(self.unit)

    def run(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
        *arguments: str,
        if_listed: int | None = None,
    ) -> tuple[str, str]:
        """Run a command in both folders, check the exit codes, and return its output for the planted file."""
        monkeypatch.chdir(self.without)
        code = main(list(arguments))
        assert code == 0, f"the file without the bad unit is sound: {capfd.readouterr()}"
        self.sound = capfd.readouterr().out
        monkeypatch.chdir(self.planted)
        code = main(list(arguments))
        streams = capfd.readouterr()
        expected = if_listed if self.bad.is_listed and if_listed is not None else self.bad.code
        assert code == expected, f"{arguments} exits with {code}:\n{streams.out}{streams.err}"
        return streams.out, streams.err

    def assert_same(self, parts: Callable[[Path], Iterator[object]]) -> None:
        """Assert that everything that is there without the bad unit is there with it too."""
        lost = Counter(map(repr, parts(self.without))) - Counter(map(repr, parts(self.planted)))
        assert not lost, f"with the bad unit these are lost: {list(lost)}"
        assert list(parts(self.without)), "without the bad unit there is nothing to compare"


@pytest.fixture
def case(format: str, host: str, kind: str, tmp_path: Path) -> Case:
    return Case(format, host, kind, tmp_path)


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a container without what says where in the file it is."""
    kept = {key: value for key, value in record.items() if key not in ("offset", "section_index", "member_numbers")}
    kept["section"] = bool(kept["section"])  # the good units have the names of other sections
    kept["member"] = bool(kept["member"])
    images = [{**image, "offset": None} for image in record["images"]]
    return {**kept, "images": images, "stored": None}


@each_case
def test_inspect_lists_the_others(
    case: Case, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for options in ((), ("--verify",)):
        out, _ = case.run(monkeypatch, capfd, "inspect", "--json", "--inflate", *options, "x", if_listed=1)
        (sound,), (planted,) = (json.loads(text)["files"] for text in (case.sound, out))
        lost = Counter(map(repr, map(_plain, sound["containers"]))) - Counter(
            map(repr, map(_plain, planted["containers"]))
        )
        assert not lost, f"not listed beside the bad unit: {list(lost)}"
        least = "warning" if case.bad.is_listed else "error"
        errors = [item for item in planted["findings"] if item["severity"] == least]
        start, end = case.place, case.place + len(case.unit)
        assert any(case.place < 0 or start <= item["offset"] <= end for item in errors), (
            f"no error lies in {start:#x} to {end:#x}, where the bad unit is: {errors}"
        )


@each_case
def test_extract_writes_the_others(
    case: Case, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for options in (("-d", "images"), ("-o", "images.a", "--archive")):
        _, err = case.run(monkeypatch, capfd, "extract", "x", *options)
        assert "error FP" in err
    case.run(monkeypatch, capfd, "extract", "x", "-d", "containers", "--containers", if_listed=0)

    def images(folder: Path) -> Iterator[object]:
        for path in (folder / "images").iterdir():
            stem, _, rest = path.name.partition(".")
            yield stem.replace("second", "third").replace("arm64", "i386"), rest.partition(".")[2], path.read_bytes()

    def containers(folder: Path) -> Iterator[object]:
        return (path.read_bytes() for path in (folder / "containers").iterdir())

    def members(folder: Path) -> Iterator[object]:
        with library.open(folder / "images.a") as file:
            from fatpack.binary import archive

            for site in archive.locate(file.view):
                assert not isinstance(site, library.Finding)
                yield site.data.tobytes()

    case.assert_same(images)
    case.assert_same(containers)
    case.assert_same(members)


@each_case
def test_convert_takes_the_others(
    case: Case, format: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    to = "fatbin" if format == "cuda-fatbin" else "offload-binary"
    _, err = case.run(monkeypatch, capfd, "convert", "x", f"--format={to}", "-o", "y")
    assert "error FP" in err

    def images(folder: Path) -> Iterator[object]:
        with library.open(folder / "y") as file:
            for image in file.images():
                yield image.target, image.data.tobytes()

    case.assert_same(images)


@each_case
def test_the_library_reads_the_others(case: Case) -> None:
    def images(folder: Path) -> Iterator[object]:
        with library.open(folder / "x") as file:
            for image in file.images():
                yield image.target, image.form, image.kernel_names, image.data.tobytes()

    def written(folder: Path) -> Iterator[object]:
        for path in library.extract(folder / "x", folder / "out", overwrite=True, accept_damage=True):
            yield path.read_bytes()

    case.assert_same(images)
    case.assert_same(written)


#: A fat object whose host cannot be made an object again: the damage of a section, and the exit code.
HOST_PARTS = {"link": (4, {"link": 9999}), "place": (3, {"offset": 1 << 40})}


@pytest.mark.parametrize("what", HOST_PARTS)
def test_a_bad_host_part_leaves_the_device_images(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    expected, change = HOST_PARTS[what]
    fat = (FIXTURES / "elf" / "clang-22-hip-rdc-bundler.o").read_bytes()
    tables = [at for at in range(1, elf.header_field(fat, "shnum")) if elf.section_field(fat, at, "type") == elf.SYMTAB]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_bytes(elf.with_section(fat, tables[0], **change))
    (tmp_path / "sound").write_bytes(fat)
    assert main(["extract", "sound", "-d", "sound.images", "-q"]) == 0
    device = {path.read_bytes() for path in (tmp_path / "sound.images").iterdir() if "amdgcn" in path.name}
    assert main(["inspect", "x"]) in (0, expected)  # listing needs no table of symbols
    assert main(["extract", "x", "-d", "images", "-q"]) == expected
    assert {path.read_bytes() for path in (tmp_path / "images").iterdir()} == device
    assert main(["extract", "x", "-o", "x.a", "--archive", "-q"]) == expected
    assert main(["convert", "x", "--format=offload-binary", "-o", "y", "-q"]) == expected
    with library.open(tmp_path / "y") as file:
        assert {image.data.tobytes() for image in file.images()} == device
    code = "FP1001" if expected == DAMAGED else "FP1008"
    assert capfd.readouterr().err.count(f"error {code}: x at 0x") == 3
    written = library.extract(tmp_path / "x", tmp_path / "again", accept_damage=True)
    assert len(written) == len(device)
    assert [item.code for item in written.unreadable] == [code]


@pytest.mark.parametrize("into", ["images", "archive", "stdout", "offload-binary", "bundle"])
def test_an_image_that_does_not_inflate_leaves_the_others(
    into: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Its container is sound and lists it; only who reads it finds out."""
    whole = [fatbin.cubin(sm, code=bytes([sm]) * 64) for sm in (75, 80, 90)]
    packed = [zstandard.compress(data) for data in whole]
    packed[1] = packed[1][:-8] + bytes(8)
    stored = zip(whole, packed, (75, 80, 90), strict=True)
    entries = [fatbin.entry(data, flags=0x8011, inflated=len(image), sm=sm) for image, data, sm in stored]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_bytes(fatbin.fatbin(*entries))
    commands = {
        "images": ("extract", "-d", "images"),
        "archive": ("extract", "--archive", "-o", "y"),
        "stdout": ("extract", "--archive", "-o", "-"),
        "offload-binary": ("convert", "--format=offload-binary", "-o", "y"),
        "bundle": ("convert", "--format=bundle", "--lossy", "-o", "y"),
    }
    verb, *options = commands[into]
    assert main([verb, "x", *options]) == DAMAGED
    out, err = capfdbinary.readouterr()
    assert b"error FP1001: x at 0x" in err
    if into == "images":
        found = [path.read_bytes() for path in sorted((tmp_path / "images").iterdir())]
    else:
        data = out if into == "stdout" else (tmp_path / "y").read_bytes()
        found = [image for image in whole if image in data]
        assert whole[1] not in data
    assert found == [whole[0], whole[2]]


#: Damage to the header of a member: the replaced bytes and the new ones.
HEADERS = {
    "terminator": (b"`\n", b"??"),
    "size is no number": (b"624 ", b"6_4 "),
    "size too large": (b"624 ", b"700 "),
    "size reaches into the last member": (b"624   ", b"1000  "),
    "size past the end": (b"624     ", b"99999999"),
}


@pytest.mark.parametrize("what", HEADERS)
def test_a_bad_member_header_leaves_the_other_members(what: str, tmp_path: Path) -> None:
    content = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()
    names = (b"a-name-that-is-long-0", b"a-name-that-is-long-1", b"a-name-that-is-long-2", b"a-name-that-is-long-3")
    table = b"".join(name + b"/\n" for name in names)
    places = [table.index(name) for name in names]
    members = [archive.member(b"/%d" % place, content) for place in places]
    bad = members[1].replace(*HEADERS[what], 1)
    assert bad != members[1]
    path = tmp_path / "x.a"
    path.write_bytes(archive.GNU + archive.member(b"//", table) + members[0] + bad + members[2] + members[3])
    with library.open(path) as file:
        found = [item.member for item in file.containers if item.view.tobytes() in content]
        assert {names[number].decode() for number in (0, 2, 3)} <= set(found)
        error = next(item for item in file.findings if item.code == "FP2101")
        start = path.read_bytes().index(bad)
        assert start <= error.span.start <= start + len(bad) + len(members[2])
    assert main(["extract", str(path), "-d", str(tmp_path / "images"), "-q"]) == DAMAGED
    assert len(list((tmp_path / "images").iterdir())) >= 12


def test_an_archive_in_an_archive_is_listed_once(tmp_path: Path) -> None:
    content = (FIXTURES / "offload_binary" / "llvm-22-one.bin").read_bytes()
    inner = archive.GNU + archive.member(b"b/", content) + archive.member(b"c/", content)
    bad = archive.member(b"x/", content).replace(b"`\n", b"??", 1)
    data = archive.GNU + archive.member(b"inner.a/", inner) + bad + archive.member(b"last/", content)
    with library.open(data) as file:
        assert [item.member for item in file.containers] == ["inner.a(b)", "inner.a(c)", "last"]


def test_remove_edits_the_members_beside_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    four = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()
    bad = (FIXTURES / "offload_binary" / "llvm-22-one.bin").read_bytes()[:-20]
    data = _archive([four, bad, four])
    monkeypatch.chdir(tmp_path)
    Path("x.a").write_bytes(data)
    Path("sound.a").write_bytes(_archive([four, b"other", four]))
    with library.open(four) as file:
        arch = next(iter(file.images())).target.arch
    assert main(["remove", "sound.a", "--arch", arch, "-o", "y.a", "-q"]) == 0
    sound = Path("y.a").read_bytes()
    assert main(["remove", "x.a", "--arch", arch, "-o", "z.a", "-q"]) == DAMAGED
    assert "error FP1001: x.a at 0x" in capfd.readouterr().err
    with library.open(sound) as expected, library.open("z.a") as found:
        left, same = ([item.view.tobytes() for item in file.containers] for file in (found, expected))
        assert left == same
    assert archive.member(b"second/", bad) in Path("z.a").read_bytes()
    with pytest.warns(UserWarning, match="past the end|needs"):
        library.remove("x.a", "again.a", library.Selector(arch=arch))
    assert Path("again.a").read_bytes() == Path("z.a").read_bytes()
