"""The images that stay: the rules of the runtimes, container by container."""

from __future__ import annotations

from io import BytesIO

import pytest
from tests.builders import elf
from tests.builders.fatbin import of_words as cuda
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack.commands.slim import SlimRefused
from fatpack.commands.slim.choose import choose_images
from fatpack.commands.slim.keep_for_device import arch_label
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.plan import plan_slim
from fatpack.commands.slim.result import verifier_for
from fatpack.errors import UsageError
from fatpack.io.source import BytesSource, View
from fatpack.scanner import FoundContainer, scan
from fatpack.targets.local_devices import parse_devices
from fatpack.testing.helpers import join_pieces


def view(data: bytes, name: str = "x.fatbin") -> View:
    return BytesSource(data, name).view()


def kept(words: str, options: SlimOptions, *, all_minors: bool = False) -> str:
    found = choose_images(list(scan(view(cuda(words)))), options, all_minors=all_minors)
    names = [arch_label(row.image).removeprefix("sm_") for row in found.kept]
    return " ".join(names).replace("compute_", "p").replace("lto_", "L")


def for_(*names: str, **more: object) -> SlimOptions:
    return SlimOptions(devices=parse_devices(names), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("images", "device", "left"),
    [
        ("80 86 90", "sm_86", "86"),
        ("80 86 90 p90", "sm_86", "86 p90"),  # the newest PTX stays for later devices
        ("50 60 80 p50 p80", "sm_80", "80 p80"),
        ("80 p75", "sm_90", "p75"),  # what alone serves the device
        ("p75 p80 p90", "sm_80", "p80 p90"),
        ("90 90a", "sm_90", "90a"),
        ("90 90a p90", "sm_90", "90a p90"),
        ("80 86", "sm_89", "80 86"),  # nobody knows which of the lower ones is taken
        ("80 p89 p90", "sm_89", "80 p89 p90"),
        ("100f 103 103a", "sm_103", "100f 103a"),  # nobody knows the place of f
        ("80 87", "sm_87", "80 87"),  # whether Orin takes sm_80 is not known
        ("80 87", "sm_89", "80"),
        ("80 90 L80 L100", "sm_90", "90 L80"),
        ("80 80 90", "sm_80", "80"),
    ],
)
def test_what_a_device_takes_stays(images: str, device: str, left: str) -> None:
    assert kept(images, for_(device)) == left


def test_each_of_several_devices_gets_its_own() -> None:
    assert kept("75 80 86 90 p90", for_("sm_75", "sm_90")) == "75 90 p90"


def test_ptx_stays_as_asked_for_and_where_nothing_else_serves() -> None:
    assert kept("80 90 p80 p90", for_("sm_90", keep_ptx="none")) == "90"
    assert kept("80 p80 p90", for_("sm_90", keep_ptx="none")) == "p90"
    assert kept("80 90 p80 p90", for_("sm_90", keep_ptx="all")) == "90 p80 p90"
    assert kept("80 90 p80 p90", SlimOptions(keep_ptx="none")) == "80 90"
    assert kept("80 90 p80 p90", SlimOptions(keep_ptx="newest")) == "80 90 p90"


def test_patterns_name_what_goes_and_what_stays() -> None:
    assert kept("52 60 61 70 p70", SlimOptions(drop=("sm_5*", "sm_6*"))) == "70 p70"
    assert kept("52 60 61 70 p61", SlimOptions(drop=("sm_6*",))) == "52 70 p61"  # PTX is compute_61
    assert kept("52 70 p70", SlimOptions(drop=("compute_*",))) == "52 70"
    assert kept("80 90 90a p80", SlimOptions(keep=("sm_9*",))) == "90 90a p80"
    assert kept("80 86 90", for_("sm_90", keep=("sm_80",))) == "80 90"
    assert kept("80 86 90", SlimOptions()) == "80 86 90"


def test_libraries_that_choose_by_name_keep_all_that_fits() -> None:
    assert kept("70 80 86 89 90 p80", for_("sm_86"), all_minors=True) == "80 86 p80"


def test_a_container_that_would_be_empty_is_refused_with_its_kernels() -> None:
    with pytest.raises(
        SlimRefused, match=r"would have no device code left, and has .*compute_90: container 0 .*kernels: k90"
    ) as caught:
        plan_slim(view(cuda("90 p90")), SlimOptions(drop=("sm_*", "compute_*")))
    assert caught.value.exit_code == 1
    with pytest.raises(SlimRefused, match="nothing in the file runs on sm_80: 1 container has sm_90"):
        plan_slim(view(cuda("90")), for_("sm_80"))


def test_a_device_that_was_served_must_still_be() -> None:
    with pytest.raises(SlimRefused, match="would no longer run on sm_90"):
        plan_slim(view(cuda("80 90")), for_("sm_80", "sm_90", drop=("sm_90",)))


def test_code_that_none_of_the_devices_loads_is_refused() -> None:
    with pytest.raises(
        SlimRefused,
        match=r"nothing in the file runs on sm_75: 1 container has sm_80, compute_90: container 0 .*kernels: k90",
    ):
        plan_slim(view(cuda("80 p90")), for_("sm_75"))
    assert kept("80 p90", for_("sm_75", allow_empty=True)) == "p90"
    assert not choose_images(list(scan(view(cuda("80 p90")))), for_("sm_75", keep=("sm_80",))).refused
    assert not choose_images(list(scan(view(cuda("80 L75")))), for_("sm_75")).refused


def test_what_did_not_serve_a_device_before_is_reported_and_not_refused() -> None:
    found = plan_slim(view(cuda("90a")), for_("sm_86", "sm_90"))
    assert any("sm_86 has no code to run, and had none before" in note for note in found.notes)
    assert not found.is_changed


def test_an_object_keeps_an_empty_container_of_what_was_for_no_device() -> None:
    made = elf.Elf()
    made.add(".nv_fatbin", cuda("80 90") + cuda("100 p100"), align=8)
    made.add("other", b"x")
    before = view(made.build(), "x.o")
    found = plan_slim(before, for_("sm_90"))
    after = view(join_pieces(found.pieces))
    verifier_for(found)(before, after)
    left = [item for item in scan(after) if isinstance(item, FoundContainer)]
    assert [[image.target.arch for image in item.images] for item in left] == [["sm_90"], []]
    assert [note for note in found.notes if "stays, empty" in note] == [
        "no code for sm_90, before and after: the container stays, empty (1 container)"
    ]
    with pytest.raises(SlimRefused, match="would no longer run on sm_100, sm_90"):
        plan_slim(before, for_("sm_90", "sm_100", drop=("*_100",)))


@pytest.mark.parametrize(("device", "is_refused"), [("sm_90", False), ("sm_52", False), ("sm_70", True)])
def test_containers_that_a_library_chooses_itself_serve_its_devices(device: str, is_refused: bool) -> None:
    """cuFFT registers one container for sm_52, and chooses one of thousands among its data."""
    registered, *chosen = [
        item for item in scan(view(cuda("52") + cuda("90") + cuda("80"))) if isinstance(item, FoundContainer)
    ]
    found = choose_images([registered, *chosen], for_(device), untouched={id(item) for item in chosen})
    assert bool(found.refused) == is_refused
    if device == "sm_90":
        assert found.vacated == {0}
        assert [row.number for row in found.kept] == [1, 2]


def test_words_that_mean_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="keep_ptx"):
        SlimOptions(keep_ptx="some")  # type: ignore[arg-type]


def test_slimming_twice_changes_nothing_more() -> None:
    options = for_("sm_86")
    once = join_pieces(plan_slim(view(cuda("80 86 90 p90")), options).pieces)
    again = plan_slim(view(once), options)
    assert not again.is_changed
    assert not again.dropped
    found = [item for item in scan(view(once)) if isinstance(item, FoundContainer)]
    assert [image.target.arch for image in found[0].images] == ["sm_86", "sm_90"]


def bundle(*ids: str) -> bytes:
    out = BytesIO()
    images = [library.ImageFile(b"code of " + one.encode(), id=one) for one in ids]
    library.pack(images, out, format="bundle")
    return out.getvalue()


AMD = "hipv4-amdgcn-amd-amdhsa--"
HOST = "host-x86_64-unknown-linux-gnu-"


@pytest.mark.parametrize(
    ("ids", "device", "left"),
    [
        ("gfx90a gfx942 gfx1100", "gfx942", "gfx942"),
        ("gfx90a:xnack- gfx90a:xnack+ gfx942", "gfx90a", "gfx90a:xnack- gfx90a:xnack+"),
        ("gfx90a:xnack- gfx90a:xnack+", "gfx90a:xnack+", "gfx90a:xnack+"),
        ("gfx1100 gfx11-generic", "gfx1100", "gfx1100"),
        ("gfx1030 gfx11-generic", "gfx1101", "gfx11-generic"),
    ],
)
def test_of_a_bundle_stays_what_hip_takes_and_the_host(ids: str, device: str, left: str) -> None:
    found = choose_images(list(scan(view(bundle(HOST, *(AMD + one for one in ids.split()))))), for_(device))
    assert [row.image.target.arch for row in found.kept] == ["", *left.split()]


def test_code_of_a_vendor_that_is_not_named_stays() -> None:
    found = plan_slim(view(bundle(HOST, AMD + "gfx90a", AMD + "gfx942")), for_("sm_90"))
    assert not found.is_changed
    assert found.notes == ("code for AMD devices is kept, as no such device is given (1 container)",)


def test_programs_of_a_kpack_archive_are_chosen_for_apart() -> None:
    data = (FIXTURES / "kpack" / "needs.plain.kpack").read_bytes()
    programs = {row.image.attrs["binary"] for row in choose_images(list(scan(view(data))), SlimOptions()).kept}
    assert len(programs) > 1
    with pytest.raises(SlimRefused, match="no device code left"):
        plan_slim(view(data), for_("gfx1100"))
    found = plan_slim(view(data), for_("gfx90a", "gfx906"))
    assert [row.image.target.arch for row in found.kept] == ["gfx90a", "gfx906:xnack+"]


def side_by_side(*archs: str, offload: str = "hip", within: str = "") -> bytes:
    """Return offload binaries of one image each, as LLVM 22 writes them, in a file or in a section of an object."""
    out = BytesIO()
    images = [
        library.ImageFile(
            (".version 8.0\n.target sm_90\n.address_size 64\n" if "compute_" in arch else f"code of {arch}").encode(),
            triple="amdgcn-amd-amdhsa" if arch.startswith("gfx") else "nvptx64-nvidia-cuda",
            arch=arch.replace("compute_", "sm_"),
            offload=offload,  # type: ignore[arg-type]
            name="x.s" if arch.startswith("compute_") else "x.o",
        )
        for arch in archs
    ]
    library.pack(images, out)
    if not within:
        return out.getvalue()
    made = elf.Elf()
    made.add(within, out.getvalue(), align=8)
    return made.build()


@pytest.mark.parametrize("within", ["", ".llvm.offloading"], ids=["file", "object"])
def test_of_offload_binaries_side_by_side_whole_ones_go(within: str) -> None:
    before = view(side_by_side("gfx906", "gfx90a", within=within))
    for options in (for_("gfx90a"), SlimOptions(drop=("gfx906",))):
        found = plan_slim(before, options)
        after = view(join_pieces(found.pieces))
        verifier_for(found)(before, after)
        left = [item for item in scan(after) if isinstance(item, FoundContainer)]
        assert [image.target.arch for item in left for image in item.images] == ["gfx90a"]
    with pytest.raises(SlimRefused, match=r"2 containers .*: container 0 .*; container 1 ") as caught:
        plan_slim(before, for_("gfx1100"))
    assert [one.number for one in caught.value.containers] == [0, 1]


def test_of_offload_binaries_each_vendor_keeps_something() -> None:
    before = view(side_by_side("sm_80", "gfx90a", "gfx906", offload="openmp"))
    with pytest.raises(SlimRefused, match=r"1 container would have no device code left.*: container 0 ") as caught:
        plan_slim(before, SlimOptions(drop=("sm_*",)))
    assert [one.number for one in caught.value.containers] == [0]
    assert [row.position for row in plan_slim(before, for_("sm_80", "gfx906")).kept] == ["0.0", "2.0"]


def test_code_of_offload_binaries_that_no_device_loads_is_refused_wherever_it_lies() -> None:
    before = view(side_by_side("sm_80", "compute_90", offload="cuda"))
    with pytest.raises(SlimRefused, match=r"sm_75.*: container 1 ") as caught:
        plan_slim(before, for_("sm_75"))
    assert [one.number for one in caught.value.containers] == [1]
    assert [row.position for row in plan_slim(before, for_("sm_80")).kept] == ["0.0", "1.0"]


def test_a_pattern_that_means_nothing_does_not_let_all_go() -> None:
    with pytest.raises(SlimRefused, match=r"nothing in it is sm_5O or sm_7\*: it has sm_80, sm_90, compute_90"):
        plan_slim(view(cuda("80 90 p90")), SlimOptions(keep=("sm_5O", "sm_7*")))
    assert [row.position for row in plan_slim(view(cuda("80 90 p90")), SlimOptions(keep=("sm_5O", "sm_9*"))).kept] == [
        "0.1",
        "0.2",
    ]


def test_code_of_a_vendor_that_is_dropped_is_not_said_to_stay() -> None:
    hip = view((FIXTURES / "elf" / "clang-22-hip.o").read_bytes(), "hip.o")
    note = "code for AMD devices is kept, as no such device is given (1 container)"
    assert plan_slim(hip, for_("sm_90")).notes == (note,)
    gone = plan_slim(hip, for_("sm_90", drop=("gfx*",), allow_empty=True))
    assert (gone.notes, len(gone.dropped)) == ((), 2)
    assert plan_slim(hip, for_("sm_90", drop=("gfx90a",))).notes == (note,)


def test_each_image_may_be_asked_about() -> None:
    options = SlimOptions(goes=lambda found, image: found.format == "cuda-fatbin" and image.form == "ptx")
    made = plan_slim(view(cuda("80 90 p80 p90")), options)
    assert ([row.position for row in made.kept], made.mode) == (["0.0", "0.1"], "edit")
    with pytest.raises(SlimRefused, match="1 container would have no device code left"):
        plan_slim(view(cuda("80 90")), SlimOptions(goes=lambda *_: True))
