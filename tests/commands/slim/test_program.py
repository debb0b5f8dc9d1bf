"""Linked programs and libraries slimmed: what is found through their records before and after."""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path

import pytest
from tests.builders import linked_pe
from tests.builders.fatbin import of_words
from tests.builders.registered import HIP, Part, linked, printed
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack import proof
from fatpack.binary.elf.file import ElfFile
from fatpack.commands.slim import SlimRefused
from fatpack.commands.slim.keep_for_device import arch_label
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.plan import SlimPlan, plan_slim
from fatpack.commands.slim.result import verifier_for
from fatpack.errors import HostError
from fatpack.io.source import BytesSource, View
from fatpack.registration import stripped_programs
from fatpack.scanner import FoundContainer, scan
from fatpack.selectors.select import Selector
from fatpack.targets.local_devices import parse_devices
from fatpack.testing.helpers import join_pieces

HOSTS = FIXTURES / "cuda_fatbin" / "hosts"
MANY = "70 75 80 86 90 p90"


def view(data: bytes, name: str = "libx.so") -> View:
    return BytesSource(data, name).view()


def starts(data: bytes) -> list[int]:
    return [item.view.start for item in scan(view(data)) if isinstance(item, FoundContainer)]


def listed(data: bytes) -> list[tuple[str, bytes]]:
    containers = [item for item in scan(view(data)) if isinstance(item, FoundContainer)]
    return [
        (arch_label(image), bytes(image.data.tobytes()).rstrip(b"\0")) for found in containers for image in found.images
    ]


def slimmed(data: bytes, options: SlimOptions) -> tuple[SlimPlan, bytes]:
    """Return the plan and the slimmed file, in which all laws of slimming were checked."""
    before = view(data)
    made = plan_slim(before, options)
    after = join_pieces(made.pieces)
    verifier_for(made)(before, view(after))
    gone = [row.position for row in made.dropped]
    containers = [item for item in scan(before) if isinstance(item, FoundContainer)]
    positions = [f"{number}.{index}" for number, found in enumerate(containers) for index in range(len(found.images))]
    left = [image for position, image in zip(positions, listed(data), strict=True) if position not in gone]
    assert listed(after) == left
    if made.is_changed:
        assert made.mode in ("shrink", "zero")
        verdict = proof.prove(before, view(after))
        assert verdict.is_proved, verdict.differences
        assert not plan_slim(view(after), options).is_changed  # slim of slim is slim
    return made, after


def for_(*names: str, **more: object) -> SlimOptions:
    return SlimOptions(devices=parse_devices(names), **more)


def run(folder: Path, data: bytes) -> list[str]:
    path = folder / "slimmed"
    path.write_bytes(data)
    path.chmod(0o755)
    return printed(path)


@pytest.mark.parametrize("name", ["libtwo.so", "libtwo.stripped.so", "librel.so"])
@pytest.mark.parametrize("mode", ["auto", "zero"])
def test_libraries_of_nvcc_keep_what_a_device_takes(name: str, mode: str) -> None:
    made, after = slimmed((HOSTS / name).read_bytes(), for_("sm_90", mode=mode))
    assert {row.image.target.arch for row in made.dropped} <= {"sm_80", "sm_75"}
    assert made.dropped
    if mode == "zero":
        assert len(after) == (HOSTS / name).stat().st_size


def test_code_that_is_linked_at_run_time_keeps_the_same_architectures_everywhere() -> None:
    data = (HOSTS / "librel.so").read_bytes()
    made, _ = slimmed(data, for_("sm_80", keep_ptx="none"))
    by_container: dict[int, set[str]] = {}
    for row in made.kept:
        by_container.setdefault(row.number, set()).add(arch_label(row.image))
    assert set(map(frozenset, by_container.values())) == {frozenset({"sm_80"})}


@pytest.mark.parametrize("options", [[], ["-no-pie"], ["-static"], ["-Wl,-z,pack-relative-relocs"]])
def test_a_program_finds_what_is_left_through_its_records(tmp_path: Path, options: list[str]) -> None:
    big = of_words(MANY)
    parts = [Part(big), Part(of_words("80 90")), Part(of_words("90a 90 80 p80")), Part(big)]
    program = linked(tmp_path, parts, *options)
    assert printed(program)[0] == "0: 2/70 2/75 2/80 2/86 2/90 1/90"
    made, after = slimmed(program.read_bytes(), for_("sm_90", keep_ptx="none"))
    assert run(tmp_path, after) == ["0: 2/90", "1: 2/90", "2: 2/90", "3: 2/90"]
    assert {row.number for row in made.kept} == {0, 1, 2, 3}


def test_an_emptied_container_keeps_its_header(tmp_path: Path) -> None:
    program = linked(tmp_path, [Part(of_words("80 p80")), Part(of_words("80 90"))])
    data = program.read_bytes()
    said = r"has sm_80, compute_80: container 0 at .* in \.nv_fatbin \(kernels: k80\)"
    with pytest.raises(SlimRefused, match=said):
        plan_slim(view(data), for_("sm_90", drop=("*_80",)))
    _, after = slimmed(data, for_("sm_90", drop=("*_80",), allow_empty=True))
    assert run(tmp_path, after) == ["0:", "1: 2/90"]


@pytest.mark.parametrize(
    ("options", "left"), [({}, "0:"), ({"keep_ptx": "none"}, "0:"), ({"keep_ptx": "all"}, "0: 1/100")]
)
def test_a_container_without_anything_for_the_devices_loses_its_code(
    tmp_path: Path, options: dict[str, object], left: str
) -> None:
    """Nothing is lost with it: a program that runs on the device does not use it. It stays registered, empty."""
    program = linked(tmp_path, [Part(of_words("100 p100")), Part(of_words("80 90")), Part(of_words("100"))])
    data = program.read_bytes()
    made, after = slimmed(data, for_("sm_90", **options))
    assert run(tmp_path, after) == [left, "1: 2/90", "2:"]
    count = "1 container" if options.get("keep_ptx") == "all" else "2 containers"
    assert [note for note in made.notes if "before" in note and "no code to run" not in note] == [
        f"no code for sm_90, before and after: the container stays, empty ({count})"
    ]
    with pytest.raises(SlimRefused, match="nothing in the file runs on sm_70"):
        plan_slim(view(data), for_("sm_70"))  # a file that has nothing at all for it


def test_two_records_of_one_container_both_follow_it(tmp_path: Path) -> None:
    program = linked(tmp_path, [Part(of_words("80 90")), Part(of_words("80 90"), records=2)])
    _, after = slimmed(program.read_bytes(), for_("sm_90"))
    assert run(tmp_path, after) == ["0: 2/90", "1: 2/90", "2: 2/90"]


def test_a_record_into_the_middle_of_a_container_leaves_it_as_it_is(tmp_path: Path) -> None:
    parts = [Part(of_words("80 90")), Part(of_words("80 90"), records=2, behind=8)]
    data = linked(tmp_path, parts).read_bytes()
    made = plan_slim(view(data), for_("sm_90"))
    before, now = starts(data), starts(join_pieces(made.pieces))
    assert before[1] - before[0] == now[1] - now[0]
    assert [row.position for row in made.dropped] == ["0.0"]
    assert any("pointers without a record lead into 1 container of .nv_fatbin" in note for note in made.notes)


def led_into(folder: Path, behind: int, *options: str) -> bytes:
    """Return a program in which a word of data, that is no record, holds an address in its second container."""
    word = f'\n        .section .data.more, "aw"\n        .balign 8\n        .8byte container1 + {behind}\n'
    return linked(folder, [Part(of_words("80 90")), Part(of_words("80 90"))], *options, tail=word).read_bytes()


@pytest.mark.parametrize("options", [(), ("-no-pie",)], ids=["pie", "no-pie"])
def test_what_a_word_of_data_leads_to_stays_there(tmp_path: Path, options: tuple[str, ...]) -> None:
    made, after = slimmed(led_into(tmp_path, 0, *options), for_("sm_90"))
    assert run(tmp_path, after) == ["0: 2/90", "1: 2/90"]
    assert any("1 container of .nv_fatbin may be reached without a record" in note for note in made.notes)


def test_what_a_relocated_word_leads_into_stays_as_it_is(tmp_path: Path) -> None:
    data = led_into(tmp_path, 100)
    made = plan_slim(view(data), for_("sm_90"))
    assert [row.position for row in made.dropped] == ["0.0"]
    assert proof.prove(view(data), view(join_pieces(made.pieces))).is_proved


@pytest.mark.parametrize(
    ("behind", "options", "what"),
    [
        (0, (), "pointer or symbol that no record is"),
        (100, (), "pointer or symbol that no record is"),
        (0, ("-no-pie",), "container that moved or shrank, led to by no record"),
    ],
)
def test_a_word_that_leads_astray_is_not_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int, options: tuple[str, ...], what: str
) -> None:
    data = led_into(tmp_path, behind, *options)
    nothing = stripped_programs.UnrelatedWords(frozenset(), frozenset(), is_exact=True)
    monkeypatch.setattr("fatpack.registration.stripped_programs.unrelated_words", lambda *_: nothing)
    verdict = proof.prove(view(data), view(join_pieces(plan_slim(view(data), for_("sm_90")).pieces)))
    assert [item.what for item in verdict.differences] == [what]


#: where in a container of ``of_words`` its first image begins: behind a header of 16 bytes and one of 64
IMAGE = 80


@pytest.mark.parametrize(
    "options", [("-no-pie",), ("-Wl,-z,pack-relative-relocs",), ("-static-pie",)], ids=["no-pie", "relr", "static-pie"]
)
def test_a_word_that_leads_to_an_image_keeps_its_container(tmp_path: Path, options: tuple[str, ...]) -> None:
    data = led_into(tmp_path, IMAGE, *options)
    made = plan_slim(view(data), for_("sm_90"))
    assert [row.position for row in made.dropped] == ["0.0"]
    assert any("pointers without a record lead into 1 container of .nv_fatbin" in note for note in made.notes)
    assert proof.prove(view(data), view(join_pieces(made.pieces))).is_proved


def test_a_number_in_a_program_that_is_not_relocated_keeps_nothing(tmp_path: Path) -> None:
    made, _ = slimmed(led_into(tmp_path, IMAGE + 1, "-no-pie"), for_("sm_90"))
    assert [row.position for row in made.dropped] == ["0.0", "1.0"]


def symbols(data: bytes) -> dict[bytes, tuple[int, int]]:
    """Return what symbols of the table have as their value, and where the file has it."""
    elf = ElfFile(view(data))
    table = next(section for section in elf.sections() if section.type == 2)
    strings = elf.section(table.link)
    found = {}
    for at in range(table.offset, table.offset + table.size, 24):
        name, _, value, _ = struct.unpack_from("<IIQQ", data, at)
        start = strings.offset + name
        found[data[start : data.index(b"\0", start)]] = value, at + 8
    return found


@pytest.mark.parametrize("options", [(), ("-no-pie",)], ids=["pie", "no-pie"])
def test_local_symbols_follow_their_container(tmp_path: Path, options: tuple[str, ...]) -> None:
    inner = "\n        .set inner, container1 + 80\n"
    parts = [Part(of_words("80 90")), Part(of_words("80 90"))]
    data = linked(tmp_path, parts, *options, tail=inner).read_bytes()
    _, after = slimmed(data, for_("sm_90"))
    old, new = symbols(data), symbols(after)
    shift = new[b"container1"][0] - old[b"container1"][0]
    assert shift < 0 and new[b"container0"][0] == old[b"container0"][0]
    assert new[b"inner"][0] == old[b"inner"][0] + shift
    for name in (b"container1", b"inner"):
        lie = bytearray(after)
        struct.pack_into("<Q", lie, new[name][1], old[name][0])
        verdict = proof.prove(view(data), view(bytes(lie)))
        assert [item.what for item in verdict.differences] == ["symbol"], name


def test_what_no_record_leads_to_stays_at_its_address(tmp_path: Path) -> None:
    parts = [Part(of_words("80 90")), Part(of_words("80 90 p90"), records=0), Part(of_words("80 90"))]
    program = linked(tmp_path, parts)
    made, after = slimmed(program.read_bytes(), for_("sm_90"))
    assert run(tmp_path, after) == ["0: 2/90", "1: 2/90"]
    starts = [
        [item.view.start for item in scan(view(data)) if isinstance(item, FoundContainer)]
        for data in (program.read_bytes(), after)
    ]
    assert starts[0][1] - starts[0][0] == starts[1][1] - starts[1][0]
    assert any("1 container of .nv_fatbin may be reached without a record" in note for note in made.notes)


def test_what_other_files_see_by_a_symbol_stays_at_its_address(tmp_path: Path) -> None:
    parts = [Part(of_words("80 90")), Part(of_words("80 90"), is_global=True)]
    path = linked(tmp_path, parts, "-Wl,-Bsymbolic", library=True)
    data = path.read_bytes()
    made = plan_slim(view(data), for_("sm_90"))
    verifier_for(made)(view(data), view(join_pieces(made.pieces)))
    assert any("not moved" in note for note in made.notes)


def hip(*archs: str, compressed: bool = False) -> bytes:
    out = BytesIO()
    images = [library.ImageFile(b"", id="host-x86_64-unknown-linux-gnu-")]
    images += [library.ImageFile(arch.encode() * 3000, id=f"hipv4-amdgcn-amd-amdhsa--{arch}") for arch in archs]
    options = (
        library.BundleOptions(align=4096, compression="zstd", version=2)
        if compressed
        else library.BundleOptions(align=4096)
    )
    library.pack(images, out, format="bundle", options=options)
    return out.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_bundles_of_hip_stay_on_pages(tmp_path: Path, compressed: bool) -> None:
    archs = ("gfx90a", "gfx942", "gfx1100")
    part = Part(hip(*archs, compressed=compressed), section=".hip_fatbin", align=4096, magic=HIP)
    program = linked(tmp_path, [part, part])
    data = program.read_bytes()
    made, after = slimmed(data, for_("gfx942"))
    start = "CCOB" if compressed else "__CL"
    assert run(tmp_path, after) == [f"0: {start}", f"1: {start}"]
    assert {arch_label(row.image) for row in made.kept if row.image.target.arch} == {"gfx942"}
    assert {start % 4096 for start in starts(after)} == {start % 4096 for start in starts(data)}


def test_what_stands_in_front_of_the_first_container_stays() -> None:
    lead = b"what a linker put here, of 40 bytes....."
    image = linked_pe.build([of_words(MANY), of_words(MANY)], lead=lead)
    _, after = slimmed(image.data, SlimOptions(devices=parse_devices(["sm_80"])))
    at = image.places[".nv_fatb"][1]
    assert after[at : at + len(lead)] == lead
    slimmed(
        linked_pe.build([of_words(MANY), of_words(MANY)], lead=bytes(16)).data,
        SlimOptions(devices=parse_devices(["sm_80"])),
    )


def test_input_of_a_device_link_serves_no_device() -> None:
    """Its PTX fits any later device, and is loaded by none (rule C14): libbitsandbytes_cuda118.so for a B200."""
    before = view((HOSTS / "librel.so").read_bytes())
    assert library.explain(HOSTS / "librel.so", "sm_100").exit_code == 1
    with pytest.raises(SlimRefused, match="sm_100"):
        plan_slim(before, for_("sm_100"))


def test_images_of_a_device_link_do_not_go_alone() -> None:
    """They would stay without a word: the containers of a device link keep the same architectures."""
    before = view((HOSTS / "librel.so").read_bytes())
    with pytest.raises(HostError, match=r"image 1\.0 \(sm_80\) and 4 others cannot go alone: .* device link") as caught:
        plan_slim(before, SlimOptions(selector=Selector(kernel="local_k"), allow_empty=True))
    assert "arch='sm_80' removes it from all of them" in caught.value.hint
    made = plan_slim(before, SlimOptions(selector=Selector(arch="sm_80")))
    assert {row.image.target.arch for row in made.dropped} == {"sm_80"}
    assert "sm_80" not in {row.image.target.arch for row in made.kept}
