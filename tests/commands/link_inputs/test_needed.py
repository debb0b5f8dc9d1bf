"""Images of archives that join by their symbols; ``test_needed_reference.py`` compares them with LLVM 19."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fatpack.binary.symbols import LinkSymbol
from fatpack.commands.link_inputs import plan
from fatpack.commands.link_inputs.input_files import LinkImage
from fatpack.commands.link_inputs.plan import group_images
from fatpack.io.source import BytesSource, View
from fatpack.model import Image, Target


@pytest.fixture(autouse=True)
def _symbols_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an image be its symbols: ``f`` is defined and hidden, ``F`` is visible, ``-f`` wanted, ``?f`` weak."""

    def symbols(view: View) -> Iterator[LinkSymbol]:
        for word in view.tobytes().decode().split():
            name = word.lstrip("-?")
            is_weak, is_wanted = "?" in word, "-" in word
            yield LinkSymbol(name.lower().encode(), not is_wanted, is_weak, name.isupper())

    monkeypatch.setattr(plan, "link_symbols", symbols)


def device(text: str, *, arch: str = "gfx90a", offload: str = "hip", is_lazy: bool = True) -> LinkImage:
    view = BytesSource(text.encode(), text).view()
    image = Image(Target("amdgcn-amd-amdhsa", arch, offload), "object", view, len(view), len(view), view.span())
    return LinkImage(image, "object", 0, "", is_lazy)


def linked(*devices: LinkImage) -> list[list[str]]:
    """Return the images of each group, as their texts."""
    groups, _ = group_images(devices, "19")
    return [[each.image.data.tobytes().decode() for each in found.devices] for found in groups]


def wants(text: str, **facts: str) -> LinkImage:
    return device(text, is_lazy=False, **facts)


def test_what_is_wanted_brings_what_it_wants_whatever_the_order() -> None:
    assert linked(device("c"), device("b -c"), device("a -b"), wants("-a")) == [["-a", "a -b", "b -c", "c"]]


def test_a_weak_reference_brings_nothing() -> None:
    assert linked(wants("-?a"), device("a")) == [["-?a"]]
    assert linked(wants("-a -?b"), device("b"), device("a")) == [["-a -?b", "a"]]


def test_kernels_are_linked_if_nothing_knows_them_and_hidden_functions_are_not() -> None:
    assert linked(wants("x"), device("K"), device("f"), device("G", offload="none")) == [["x", "K"]]


def test_images_for_targets_that_nothing_else_is_for_stay_behind() -> None:
    groups, left = group_images([wants("-a"), device("a", arch="gfx908")], "19")
    assert [len(each.devices) for each in groups] == [1]
    assert len(left) == 1


def test_an_image_joins_the_compatible_groups_that_want_it() -> None:
    plus, minus = "gfx90a:xnack+", "gfx90a:xnack-"
    assert linked(wants("-a", arch=plus), wants("-b", arch=minus), device("a"), device("b")) == [
        ["-a", "a"],
        ["-b", "b"],
    ]


def test_work_grows_with_the_symbols_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    is_needed = plan._LazyImageJoin._is_needed
    monkeypatch.setattr(
        plan._LazyImageJoin,
        "_is_needed",
        lambda self, number, key: asked.append(number) or is_needed(self, number, key),
    )
    count = 400
    chain = [device(f"f{number} -f{number + 1}") for number in reversed(range(count))]
    (found,) = linked(*chain, wants("-f0"))
    assert len(found) == count + 1
    assert len(asked) < 3 * count
