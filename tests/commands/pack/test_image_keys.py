"""The bundle ID that an option gives to its images, and what it may not say."""

from __future__ import annotations

import pytest

from fatpack.commands.pack.formats import id_from
from fatpack.errors import UsageError
from fatpack.formats.offload_binary.image_option import parse_image_option
from fatpack.model import Target

KINDS = {"host": "host", "gpu": "cuda"}


def named(text: str) -> str:
    def id_for(target: Target) -> str:
        return "/".join((target.offload, target.triple, target.arch))

    return id_from(parse_image_option(text), "a box", KINDS, id_for, str.upper)


def test_an_id_is_stored_as_the_container_spells_it() -> None:
    assert named("file=f,id=a-b") == "A-B"


def test_an_id_is_made_of_kind_triple_and_arch() -> None:
    assert named("file=f,arch=a,triple=t,kind=gpu") == "cuda/t/a"
    assert named("triple=t,kind=host,file=f") == "host/t/"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("file=f,id=x,kind=gpu", "id already states what kind does; leave out kind"),
        ("file=f,id=", "the bundle ID is empty"),
        ("file=f", r"a box needs to know the kind; write kind=host\|gpu, or id=BUNDLE-ID"),
        ("file=f,kind=hip,triple=t", "kind=hip is no offload kind of a box"),
        ("file=f,kind=gpu", "images in a box need a triple"),
        ("file=f,id=x,producer=me", "a box cannot store the key 'producer'; it stores an ID for each image"),
    ],
)
def test_other_options_are_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=f"--image={text}: {problem}"):
        named(text)
