"""The ranges that a scan searches: sections of unknown names, everything if nothing was found; it lists the rest."""

from __future__ import annotations

import pytest
from tests.builders import archive, coff, elf, pe
from tests.laws.rooms import FIXTURES

from fatpack import limits
from fatpack.io.source import BytesSource, View
from fatpack.model import Finding
from fatpack.scanner import ContainerScan, FoundContainer, NotSearched, scan

FATBIN = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()
CUBIN = (FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin").read_bytes()


def scanned(data: bytes, *, deep: bool = False) -> tuple[ContainerScan, list[str | None], list[Finding]]:
    """Return a finished scan, the sections of the containers, and the findings."""
    found = scan(BytesSource(data, "file").view(), deep=deep)
    items = list(found)
    sections = [item.section for item in items if isinstance(item, FoundContainer)]
    return found, sections, [item for item in items if isinstance(item, Finding)]


@pytest.mark.parametrize("section", ["cask_resource", "mine"])
def test_a_section_whose_name_says_nothing_is_searched(section: str) -> None:
    data = elf.with_contents(nv_fatbin=FATBIN, text=b"code" * 9, **{section: b"head" * 8 + FATBIN})
    found, sections, findings = scanned(data)
    assert sections == [".nv_fatbin", f".{section}"]
    assert findings == []
    assert found.is_outside
    assert found.not_searched == (NotSearched(".text", 1, 36),)


def test_the_same_holds_for_windows() -> None:
    object = coff.build([coff.Section(b".nv_fatb", b""), coff.Section(b".mine", FATBIN), coff.Section(b".text", b"x")])
    program = pe.build([pe.Section(b".nv_fatb", FATBIN), pe.Section(b".mine", FATBIN), pe.Section(b".text", b"x")])
    assert scanned(object)[1] == [".mine"]
    assert scanned(program)[1] == [".nv_fatb", ".mine"]


def test_what_was_found_already_is_not_found_again_in_a_section_around_it() -> None:
    found, sections, _ = scanned(elf.with_contents(nv_fatbin=FATBIN, hip_fatbin2=b"nothing of ours" * 9))
    assert sections == [".nv_fatbin"]
    assert not found.is_outside


def test_bytes_after_the_last_section_are_searched() -> None:
    assert scanned(elf.with_contents(nv_fatbin=FATBIN) + bytes(8) + FATBIN)[1] == [".nv_fatbin", None]


@pytest.mark.parametrize("section", ["rodata", "data", "lrodata", "data.rel.ro.local"])
def test_the_data_of_an_object_is_searched_where_nothing_was_found(section: str) -> None:
    found, sections, findings = scanned(elf.with_contents(**{section: bytes(64) + FATBIN, "bss": b"", "text": b"code"}))
    assert sections == [f".{section}"]
    assert findings == []
    assert found.not_searched == ()


@pytest.mark.parametrize("section", ["text", "comment"])
def test_code_is_searched_by_a_deep_search_alone(section: str) -> None:
    data = elf.with_contents(**{section: bytes(64) + FATBIN})
    assert scanned(data)[1] == []
    assert scanned(data, deep=True)[1] == [f".{section}"]
    thorough = scan(BytesSource(data, "file").view(), is_thorough=True)
    assert [item.section for item in thorough if isinstance(item, FoundContainer)] == [f".{section}"]


def program(**contents: bytes) -> bytes:
    """Return a library of some sections."""
    made = elf.Elf(type=3)
    for name, content in contents.items():
        made.add(f".{name}", content)
    return made.build()


@pytest.mark.parametrize("section", ["rodata", "ldata", "data"])
def test_one_container_does_not_end_the_search_of_a_library(section: str) -> None:
    found, sections, _ = scanned(program(nv_fatbin=FATBIN, text=b"code", **{section: bytes(8) + FATBIN * 3}))
    assert sections == [".nv_fatbin", *[f".{section}"] * 3]
    assert found.is_outside


def test_the_code_of_a_library_that_loads_containers_by_itself_is_searched_too() -> None:
    """What it has for a device is known after that, and not before."""
    registered = program(nv_fatbin=FATBIN, text=b"code" + bytes(4) + FATBIN)
    found, sections, _ = scanned(registered)
    assert (sections, found.not_searched) == ([".nv_fatbin"], (NotSearched(".text", 1, 8 + len(FATBIN)),))
    found, sections, _ = scanned(program(nv_fatbin=FATBIN, text=b"code" + bytes(4) + FATBIN, data=FATBIN))
    assert (sections, found.not_searched) == ([".nv_fatbin", ".data", ".text"], ())


def test_bare_images_in_the_data_of_a_library_are_listed() -> None:
    items = list(scan(BytesSource(program(rodata=FATBIN, data=bytes(64) + CUBIN), "file").view()))
    found = [(item.format, item.section, item.images[0].form) for item in items if isinstance(item, FoundContainer)]
    assert found == [("cuda-fatbin", ".rodata", "cubin"), ("bare-image", ".data", "cubin")]


def test_the_data_of_windows_libraries_is_searched_too() -> None:
    library = pe.build([pe.Section(b".nv_fatb", FATBIN), pe.Section(b".rdata", FATBIN), pe.Section(b".text", b"x")])
    assert scanned(library)[1] == [".nv_fatb", ".rdata"]


def test_a_large_file_that_no_host_reads_is_not_searched_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(64) + FATBIN
    assert scanned(data)[1] == [None]
    monkeypatch.setattr(limits, "SEARCHED", len(data) - 1)
    found, sections, _ = scanned(data)
    assert (sections, found.not_searched) == ([], (NotSearched("the whole file", 1, len(data)),))
    assert scanned(data, deep=True)[1] == [None]


def test_where_something_was_found_host_data_is_left_and_named() -> None:
    data = elf.with_contents(nv_fatbin=FATBIN, rodata=FATBIN, data=b"d" * 40)
    found, sections, _ = scanned(data)
    assert sections == [".nv_fatbin"]
    assert found.not_searched == (NotSearched(".rodata", 1, len(FATBIN)), NotSearched(".data", 1, 40))
    assert not found.is_outside
    deep, sections, _ = scanned(data, deep=True)
    assert sections == [".nv_fatbin", ".rodata"]
    assert deep.not_searched == ()


def test_an_archive_is_one_file() -> None:
    plain, other = elf.with_contents(text=b"code" * 9), elf.with_contents(rodata=FATBIN)
    without = b"!<arch>\n" + archive.member(b"a.o/", plain) + archive.member(b"b.o/", other)
    assert scanned(without)[1] == [".rodata"]
    found, sections, _ = scanned(without + archive.member(b"c.o/", elf.with_contents(nv_fatbin=FATBIN)))
    assert sections == [".nv_fatbin"]
    assert found.not_searched == (NotSearched(".rodata", 1, len(FATBIN)), NotSearched(".text", 1, 36))


def test_a_device_image_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes are not read for it: it is device code, and holds no containers."""

    def read(self: BytesSource, offset: int, size: int) -> bytes:
        assert size <= 1 << 12
        return bytes(memoryview(CUBIN.ljust(1 << 20))[offset : offset + size])

    monkeypatch.setattr(BytesSource, "read", read)
    assert list(scan(BytesSource(CUBIN.ljust(1 << 20), "x.cubin").view())) == []


def test_a_search_stays_linear_and_reads_each_byte_once() -> None:
    reads: list[int] = []

    class Counted(BytesSource):
        def read(self, offset: int, size: int) -> bytes:
            reads.append(min(size, self.size - offset))
            return super().read(offset, size)

    data = b"\0\1" * (4 << 20)
    assert list(scan(Counted(data, "x").view())) == []
    assert sum(reads) < len(data) * 1.1


@pytest.mark.parametrize("deep", [False, True])
def test_no_number_of_findings_ends_a_scan(monkeypatch: pytest.MonkeyPatch, deep: bool) -> None:
    monkeypatch.setattr(limits, "FINDINGS", 10)
    wrong = b"\x01\x5a\xe5\x1e" * 8
    data = elf.with_contents(nv_fatbin=(b"rubbish!" + FATBIN) * 50 + FATBIN)
    _, sections, findings = scanned(data, deep=deep)
    assert len(sections) == 51
    rubbish = [item for item in findings if item.code == "FP1002"]
    assert len(rubbish) == 11
    assert sum(item.count for item in rubbish) == 50
    assert rubbish[-1].count == 40
    assert {item.section for item in rubbish} == {".nv_fatbin"}
    assert scanned(elf.with_contents(nv_fatbin=FATBIN + wrong + FATBIN), deep=deep)[1] == [".nv_fatbin"] * 2


def test_a_limit_of_containers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTAINERS", 3)
    _, sections, (problem,) = scanned(elf.with_contents(nv_fatbin=FATBIN * 5))
    assert len(sections) == 3
    assert (problem.code, problem.severity) == ("FP1005", "error")


def view_of(data: bytes) -> View:
    return BytesSource(data, "file").view()


FOREIGN = {
    "a WebAssembly module": b"\0asm\x0d\0\1\0" + bytes(64),
    "a cpio archive": b"070701" + b"0" * 104,
    "an RPM package": b"\xed\xab\xee\xdb\3\0" + bytes(90),
    "a SquashFS image": b"hsqs" + bytes(92),
    "a 7z archive": b"7z\xbc\xaf\x27\x1c" + bytes(30),
    "compressed with bzip2": b"BZh91AY&SY" + bytes(30),
    "an ISO 9660 disk image": bytes(0x8001) + b"CD001" + bytes(99),
    "a disk image with a GPT": bytes(510) + b"\x55\xaaEFI PART" + bytes(99),
    "an image of an ext file system": bytes(0x438) + b"\x53\xef\1\0" + bytes(99),
    "a disk image of macOS": bytes(600) + b"koly" + bytes(508),
    "a qcow2 disk image": b"QFI\xfb\0\0\0\3" + bytes(99),
    "an XCOFF file of AIX": b"\x01\xf7" + bytes(14) + (120).to_bytes(2, "big") + bytes(50),
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("deep", [False, True])
def test_what_no_room_reads_is_named(kind: str, deep: bool) -> None:
    _, sections, (refusal,) = scanned(FOREIGN[kind], deep=deep)
    assert sections == []
    assert (refusal.code, refusal.severity) == ("FP1006", "warning")
    assert refusal.message.startswith(f"{kind}: ")


def test_a_tar_archive_whose_first_header_does_not_add_up_is_damaged_and_searched_all_the_same() -> None:
    data = bytes(257) + b"ustar\x0000" + bytes(336) + FATBIN + bytes(99)
    _, sections, (refusal,) = scanned(data)
    assert sections == [None]
    assert (refusal.code, refusal.severity) == ("FP1701", "error")
    assert refusal.message.startswith("a tar archive, whose first header does not add up to its checksum")


@pytest.mark.parametrize("kind", ["a cpio archive", "a qcow2 disk image", "a disk image of macOS"])
def test_what_lies_open_in_them_is_found_and_they_are_named_all_the_same(kind: str) -> None:
    data = FOREIGN[kind][:600] + FATBIN + FOREIGN[kind][600:]
    _, sections, (refusal,) = scanned(data)
    assert sections == [None]
    assert refusal.message == f"{kind}: not read, only searched for containers"


@pytest.mark.parametrize(
    "data", [b"\xca\xfe\xba\xbe\0\0\0\x34" + bytes(99), b"\x01\xdf" + b"\7" * 40, b"plain text\n", b"", bytes(1000)]
)
def test_any_other_file_has_no_device_code_and_nothing_to_report(data: bytes) -> None:
    assert scanned(data)[1:] == ([], [])


def test_members_of_an_archive_with_device_code_are_named_too() -> None:
    xcoff = archive.member(b"m.o/", FOREIGN["an XCOFF file of AIX"])
    members = archive.member(b"a.o/", elf.with_contents(nv_fatbin=FATBIN)) + xcoff
    _, sections, (refusal,) = scanned(b"!<arch>\n" + members)
    assert sections == [".nv_fatbin"]
    assert refusal.message == "an XCOFF file of AIX: not read, only searched for containers"
    assert refusal.hint == ""
