"""Writing both versions: new files in the order of DPC++'s tools, files that were read in stored order."""

from __future__ import annotations

import pytest
from tests.builders.syclbin import GEN, SPIR64, Image, Module, entries, v1, v2
from tests.formats.syclbin.test_parse import MODULES, PROPERTIES, SPIRV, parsed

from fatpack.errors import Unsupported, UsageError
from fatpack.formats import syclbin
from fatpack.formats.syclbin.layout import ABSTRACT, HEADER, IR_MODULE, NewModules
from fatpack.io.source import PiecesSource, Span
from fatpack.model import Container, Target
from fatpack.testing.helpers import join_pieces, make_image
from fatpack.writer_options import SyclbinOptions

PARTS = (
    make_image(SPIRV, target=Target(SPIR64, "", "sycl"), form="spirv"),
    make_image(b"native", target=Target(GEN, "bmg-g21", "sycl"), form=""),
)


def fresh(version: int, parts: tuple[object, ...] = PARTS, **attrs: str) -> Container:
    return Container("syclbin", version, parts, Span(0, 0), attrs=attrs)  # type: ignore[arg-type]


def test_version_1_is_what_dpcpps_tools_write() -> None:
    modules = [Module([Image(SPIRV)], PROPERTIES), Module([Image(b"native", GEN, "bmg-g21")])]
    container = fresh(1, state="input").replace(record=NewModules({0: PROPERTIES}))
    assert join_pieces(syclbin.write(container)) == v1(modules, 0)


def test_images_of_one_module_are_adjacent() -> None:
    parts = tuple(part.replace(attrs={"am_index": "0"}) for part in reversed(PARTS))
    modules = [Module([Image(SPIRV), Image(b"native", GEN, "bmg-g21")])]
    assert join_pieces(syclbin.write(fresh(1, parts))) == v1(modules)


@pytest.mark.parametrize("order", ["tools", "runtime"])
def test_what_was_read_keeps_its_order(order: str) -> None:
    data = v1(MODULES, order=order)
    assert join_pieces(syclbin.write(parsed(data))) == data


def test_a_file_without_padding_at_its_end_stays_so() -> None:
    data = v1([Module([Image(b"native", GEN, "pvc")])])
    shorter = data.rstrip(b"\0")
    assert len(shorter) < len(data)
    assert join_pieces(syclbin.write(parsed(shorter))) == shorter


def test_unset_bytes_stay() -> None:
    data = bytearray(v1(MODULES))
    data[HEADER.field_offset("padding")] = 0xAA
    assert join_pieces(syclbin.write(parsed(bytes(data)))) == bytes(data)


def test_another_version_says_the_same() -> None:
    one, two = parsed(v1(MODULES)), parsed(v2(entries(MODULES)))
    assert join_pieces(syclbin.write(two.replace(version=1))) == v1(MODULES)
    again = parsed(join_pieces(syclbin.write(one.replace(version=2))))
    assert syclbin.describe(again) == syclbin.describe(two)
    assert [item.target for item in again.images] == [item.target for item in two.images]
    assert [dict(item.attrs) for item in again.images] == [dict(item.attrs) for item in two.images]
    assert again.findings == ()


@pytest.mark.parametrize("version", [1, 2])
def test_an_image_may_be_left_out(version: int) -> None:
    container = parsed(v1(MODULES) if version == 1 else v2(entries(MODULES)))
    again = parsed(join_pieces(syclbin.write(container.replace(images=container.images[1:3]))))
    assert [item.data.tobytes() for item in again.images] == [b"native", b"other"]
    assert again.findings == ()
    assert len(syclbin.describe(again)["modules"]) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [1, 2])
def test_an_image_may_get_other_bytes(version: int) -> None:
    container = parsed(v1(MODULES) if version == 1 else v2(entries(MODULES)))
    first, *others = container.images
    new = PiecesSource([SPIRV, bytes(5000)]).view()
    again = parsed(join_pieces(syclbin.write(container.replace(images=(first.replace(data=new), *others)))))
    assert again.images[0].data.tobytes() == SPIRV + bytes(5000)
    assert [item.data.tobytes() for item in again.images[1:]] == [item.data.tobytes() for item in others]
    assert [dict(item.attrs) for item in again.images] == [dict(item.attrs) for item in container.images]
    assert [item.record.metadata.tobytes() for item in again.images] == [  # type: ignore[attr-defined]
        item.record.metadata.tobytes()  # type: ignore[attr-defined]
        for item in container.images
    ]
    assert again.findings == ()


@pytest.mark.parametrize("version", [1, 2])
def test_an_image_may_be_added(version: int) -> None:
    container = parsed(v1(MODULES) if version == 1 else v2(entries(MODULES)))
    again = parsed(join_pieces(syclbin.write(container.replace(images=(*container.images, PARTS[1])))))
    assert [item.attrs["am_index"] for item in again.images] == ["0", "0", "0", "1", "2"]
    assert again.findings == ()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("state", ["input", "object", "executable"])
def test_the_state_can_be_chosen(version: int, state: str) -> None:
    container = parsed(v1(MODULES, 1) if version == 1 else v2(entries(MODULES, 1)))
    for start in (container, fresh(version)):
        assert parsed(join_pieces(syclbin.write(start, SyclbinOptions(state=state)))).attrs == {"state": state}
        assert parsed(join_pieces(syclbin.write(start.replace(attrs={"state": state})))).attrs == {"state": state}


def test_an_unstated_kind_is_executable() -> None:
    assert parsed(join_pieces(syclbin.write(fresh(2)))).attrs == {"state": "executable"}


def test_what_no_file_can_say_is_refused() -> None:
    with pytest.raises(UsageError, match="version 3"):
        syclbin.write(fresh(3))
    with pytest.raises(UsageError, match="state 'final'"):
        syclbin.write(fresh(2, state="final"))
    for attrs, problem in (({"role": "spare"}, "role 'spare'"), ({"am_index": "x"}, "am_index 'x'")):
        with pytest.raises(UsageError, match=problem):
            syclbin.write(fresh(2, (PARTS[0].replace(attrs=attrs),)))
    with pytest.raises(UsageError, match="for no architecture"):
        syclbin.write(fresh(1, (PARTS[1].replace(attrs={"role": "ir"}),)))


def test_images_that_share_their_bytes_are_written_once_or_refused() -> None:
    data = bytearray(v1([Module([Image(SPIRV)]), Module([Image(bytes(len(SPIRV)))])]))
    second = HEADER.size + 2 * ABSTRACT.size + IR_MODULE.size + IR_MODULE.field_offset("offset")
    data[second : second + 8] = bytes(8)
    again = parsed(join_pieces(syclbin.write(parsed(bytes(data)))))
    assert [item.data.tobytes() for item in again.images] == [SPIRV, SPIRV]
    many = bytearray(v1([Module([Image(bytes(5000) if not number else b"")]) for number in range(40)]))
    for number in range(40):
        at = HEADER.size + 40 * ABSTRACT.size + number * IR_MODULE.size + IR_MODULE.field_offset("offset")
        many[at : at + 16] = number.to_bytes(8, "little") + (5000 - number).to_bytes(8, "little")
    with pytest.raises(Unsupported, match="share their bytes"):
        syclbin.write(parsed(bytes(many)))
