"""The command that is run: placeholders, braces, and words of a file that do not go into it."""

from __future__ import annotations

import pytest

from fatpack.commands.map.map import PLACEHOLDERS, parse_template, placeholder_values
from fatpack.errors import UsageError
from fatpack.images import UNKNOWN
from fatpack.model import Target
from fatpack.scanner import FoundImage
from fatpack.testing.helpers import make_image


def found(**facts: object) -> FoundImage:
    return FoundImage(make_image(b"bytes", **facts), UNKNOWN)


def test_values_take_the_place_of_placeholders_and_no_argument_is_divided() -> None:
    command = parse_template(
        ["cc", "-mcpu={processor}", "{in}", "-o", "{out}", "{{{index}}}", "a b"], wants_output=True
    )
    target = Target("amdgcn-amd-amdhsa", "gfx90a:xnack+", "hip")
    values = placeholder_values("3.7", found(target=target), command.names)
    filled = command.filled({**values, "in": "/x/in.bc", "out": "/x/out"})
    assert filled == ["cc", "-mcpu=gfx90a", "/x/in.bc", "-o", "/x/out", "{7}", "a b"]


def test_a_value_with_braces_is_no_placeholder() -> None:
    command = parse_template(["x", "{in}"], wants_output=False)
    assert command.filled({"in": "/{out}/{in}"}) == ["x", "/{out}/{in}"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "there is no command"),
        ([""], "there is no command"),
        (["x", "{inn}", "{in}"], r"\{inn\} in the argument .* is no placeholder; they are \{in\}, \{out\}"),
        (["awk", "{print}", "{in}"], r"write \{\{ for a brace"),
        (["x", "{in"], "is no placeholder"),
        (["x", "in}"], "is no placeholder"),
        (["x", "{}"], "is no placeholder"),
        (["x", "y"], r"no argument of the command has \{in\}"),
        (["x", "{in}\0"], "NUL"),
    ],
)
def test_commands_that_cannot_be_meant_are_refused(words: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_template(words, wants_output=False)


def test_an_output_is_named_where_it_goes_somewhere_and_nowhere_else() -> None:
    with pytest.raises(UsageError, match=r"no argument of the command has \{out\}"):
        parse_template(["x", "{in}"], wants_output=True)
    with pytest.raises(UsageError, match=r"goes nowhere; fatpack\.map_images"):
        parse_template(["x", "{in}", "{out}"], wants_output=False)


@pytest.mark.parametrize("arch", ["-o/etc/passwd", "a b", "../x", "$(x)", "a;b", "a\nb", "/x", "@x", "ä", "sm_80'"])
def test_an_architecture_that_is_no_plain_word_goes_into_no_argument(arch: str) -> None:
    hostile = found(target=Target("nvptx64-nvidia-cuda", arch, "cuda"))
    with pytest.raises(UsageError, match=r"the arch of image 0\.0 is no plain word"):
        placeholder_values("0.0", hostile, frozenset(["arch"]))
    assert placeholder_values("0.0", hostile, frozenset(["triple"]))["triple"] == "nvptx64-nvidia-cuda"


@pytest.mark.parametrize("arch", ["gfx90a:sramecc+:xnack-", "sm_90a", "gfx9-4-generic", "sm_80,sm_90"])
def test_architectures_are_plain_words(arch: str) -> None:
    assert placeholder_values("0.0", found(target=Target("t", arch, "hip")), frozenset(["arch"]))["arch"] == arch


def test_what_an_image_does_not_say_is_no_empty_argument() -> None:
    with pytest.raises(UsageError, match=r"image 0\.0 has no id; leave out \{id\}"):
        placeholder_values("0.0", found(), frozenset(["id"]))


def test_every_placeholder_has_a_value() -> None:
    assert placeholder_values("0.0", found(), frozenset()).keys() | {"in", "out"} == PLACEHOLDERS.keys()
