"""AMD target IDs are read as strictly as clang reads them, and spelled as clang spells them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.errors import TargetError
from fatpack.targets.vocabulary import TargetId, canonical_target_id, feature_signs, parse_target_id

FEATURES = st.dictionaries(st.sampled_from(["xnack", "sramecc", "new-one"]), st.sampled_from("+-"))


@st.composite
def target_ids(draw: st.DrawFn) -> str:
    features = [name + sign for name, sign in draw(FEATURES).items()]
    return ":".join([draw(st.sampled_from(["gfx90a", "gfx9-4-generic", "tahiti"])), *draw(st.permutations(features))])


def test_features_are_put_in_alphabetical_order() -> None:
    assert parse_target_id("gfx90a:xnack+:sramecc-") == TargetId("gfx90a", ("sramecc-", "xnack+"))
    assert canonical_target_id("gfx90a:xnack+:sramecc-") == "gfx90a:sramecc-:xnack+"


def test_a_processor_alone_is_a_target_id() -> None:
    assert canonical_target_id("gfx9-4-generic") == "gfx9-4-generic"


def test_one_colon_at_the_end_is_dropped_as_clang_drops_it() -> None:
    assert canonical_target_id("gfx90a:") == "gfx90a"
    assert canonical_target_id("gfx90a:xnack+:") == "gfx90a:xnack+"


@pytest.mark.parametrize(
    "text",
    ["", ":xnack+", "gfx90a::xnack+", "gfx90a::", "gfx90a:xnack", "gfx90a:+", "gfx90a:xnack++", "gfx90a:xnack+-"],
)
def test_a_malformed_target_id_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match="gfx90a:sramecc"):
        parse_target_id(text)


@pytest.mark.parametrize("text", ["gfx90a:xnack+:xnack+", "gfx90a:xnack+:xnack-"])
def test_a_feature_given_twice_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match="xnack twice"):
        parse_target_id(text)


@given(target_ids())
def test_the_canonical_form_is_its_own_canonical_form(text: str) -> None:
    canonical = canonical_target_id(text)
    assert canonical_target_id(canonical) == canonical
    assert sorted(canonical.split(":")) == sorted(text.split(":"))


@given(st.text(alphabet="gfx90a:+-sramecc_\0 é", max_size=40))
def test_any_text_is_a_target_id_or_a_target_error(text: str) -> None:
    try:
        parsed = parse_target_id(text)
    except TargetError:
        return
    assert parse_target_id(str(parsed)) == parsed


def test_signs_of_a_stored_arch_pass_over_what_is_malformed() -> None:
    assert feature_signs("gfx90a:xnack+:bad:sramecc-:xnack-:") == {"xnack": "+", "sramecc": "-"}
    assert feature_signs("sm_90a") == {}
