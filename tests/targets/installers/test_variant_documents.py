"""Descriptions of variants: what uv and variantlib refuse of them, by one change of a right document each."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import reference
from tests.builders.variants import SHARED, uv_log, wheel

from fatpack.targets.installers.variant_documents import InvalidVariants, parse_variants

PROVIDER = SHARED["providers"]["nvidia"]
RIGHT: dict[str, Any] = {**SHARED, "variants": {"x": {"nvidia": {"sm_arch": ["90_real"]}}}}


def provided(**changes: object) -> dict[str, Any]:
    return {**RIGHT, "providers": {"nvidia": {**PROVIDER, **changes}}}


def variant(label: str = "x", namespace: str = "nvidia", **features: object) -> dict[str, Any]:
    return {**RIGHT, "variants": {label: {namespace: features or {"sm_arch": ["90_real"]}}}}


#: name → document, the end of the message, and which tools refuse it
WRONG: dict[str, tuple[Any, str, str]] = {
    "another key": ({**RIGHT, "more": 1}, "the only keys are $schema, default-priorities, providers, variants", "uv"),
    "no schema": ({key: value for key, value in RIGHT.items() if key != "$schema"}, "it has no key $schema", "uv"),
    "a schema that is no text": ({**RIGHT, "$schema": 1}, "$schema is no text", "uv"),
    "another priority": (
        {**RIGHT, "default-priorities": {"namespace": ["nvidia"], "feature": {}}},
        "default-priorities has namespace, feature, and its only key is namespace",
        "uv",
    ),
    "no priorities": ({**RIGHT, "default-priorities": {"namespace": []}}, "namespace is empty", "uv"),
    "priorities twice": ({**RIGHT, "default-priorities": {"namespace": ["nvidia"] * 2}}, "has a value twice", "uv"),
    "a namespace without provider": (
        {**RIGHT, "default-priorities": {"namespace": ["nvidia", "amd"]}},
        "namespace has nvidia, amd, and providers are those of nvidia: both must be the same",
        "uv",
    ),
    "another key of a provider": (provided(more=1), "its keys are requires, optional, plugin-api", "uv"),
    "two kinds of a provider": (provided(**{"static-properties": {"a": ["b"]}}), "is expected", "uv"),
    "no kind of a provider": ({**RIGHT, "providers": {"nvidia": {}}}, "has nothing, and exactly one of", "uv"),
    "a feature without order": (
        {**RIGHT, "providers": {"nvidia": {"static-properties": {"a": ["b"], "c": ["d"]}}}},
        "feature-order has a, and static-properties has a, c: both must be the same",
        "uv",
    ),
    "letters of a label": (variant("SM90"), "variants: SM90: the only characters are a to z, 0 to 9 and _ and .", "uv"),
    "a long label": (variant("x" * 17), "the label has 17 characters, and 16 are the most", ""),
    "null with properties": (variant("null"), "variants: null has properties, and null has none", "uv"),
    "a label without properties": (
        {**RIGHT, "variants": {"x": {}}},
        "variants: x has no properties, as null alone has",
        "variantlib",
    ),
    "a namespace that is not listed": (variant(namespace="amd"), "amd is none of the namespaces", "uv"),
    "no value": (variant(sm_arch=[]), "variants: x: nvidia :: sm_arch has no value", "uv"),
    "a value twice": (variant(sm_arch=["90_real"] * 2), "has a value twice", "uv"),
    "letters of a value": (variant(sm_arch=["90 real"]), "'90 real': the only characters are", "uv"),
    "a value that is no text": (variant(sm_arch=[90]), "sm_arch is no list of texts", "uv"),
    "a plug-in that is no text": (provided(**{"plugin-api": 1}), "plugin-api must be a text, and optional", "uv"),
    "optional as a text": (provided(optional="yes"), "plugin-api must be a text, and optional true or false", "uv"),
    "no object": ([], "it is no object", "uv"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_document_is_refused(name: str) -> None:
    document, end, _ = WRONG[name]
    with pytest.raises(InvalidVariants) as raised:
        parse_variants(json.dumps(document).encode())
    assert str(raised.value).endswith(end) or end in str(raised.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 9999, b"\xff", b'{"a": 1' + b" " * 99, b"9" * 9999])
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(InvalidVariants, match="it is no JSON"):
        parse_variants(data)


#: how JSON is written that Python's reader takes, and uv does not → the end of the message
NOT_STRICT = {
    "UTF-16": (json.dumps(RIGHT).encode("utf-16"), "byte 0x0 is no UTF-8"),
    "UTF-16 without a mark": (json.dumps(RIGHT).encode("utf-16-le"), "see line 1, column 2"),
    "a byte order mark": (b"\xef\xbb\xbf" + json.dumps(RIGHT).encode(), "see line 1, column 1"),
    "variants twice": (json.dumps(RIGHT)[:-1].encode() + b', "variants": {}}', "the key 'variants' is there twice"),
    "a label twice": (json.dumps(RIGHT)[:-2].encode() + b', "x": {}}}', "the key 'x' is there twice"),
    "no number": (json.dumps(RIGHT)[:-1].encode() + b', "a": NaN}', "NaN is no number"),
}


@pytest.mark.parametrize("name", NOT_STRICT)
def test_only_strict_json_is_read(name: str) -> None:
    data, end = NOT_STRICT[name]
    with pytest.raises(InvalidVariants, match="it is no JSON") as raised:
        parse_variants(data)
    assert str(raised.value).endswith(end)


def test_documents_have_bounds() -> None:
    many: dict[str, Any] = {**RIGHT, "variants": {f"x{number}": RIGHT["variants"]["x"] for number in range(1001)}}
    with pytest.raises(InvalidVariants, match="variants has more than 1000 labels"):
        parse_variants(json.dumps(many).encode())
    long = variant(sm_arch=[str(number) for number in range(1001)])
    with pytest.raises(InvalidVariants, match="variants: x has more than 1000 values"):
        parse_variants(json.dumps(long).encode())


def test_a_right_document_is_read_whole() -> None:
    found = parse_variants(json.dumps(RIGHT).encode())
    assert found.variants == {"x": {"nvidia": {"sm_arch": ("90_real",)}}}
    assert found.priorities == ("nvidia",)
    assert found.shared == SHARED


@pytest.mark.reference
def test_uv_refuses_the_same_documents(tmp_path: Path) -> None:
    cases = {**{name: (document, who) for name, (document, _, who) in WRONG.items()}, "right": (RIGHT, "")}
    names = {f"p{number}": name for number, name in enumerate(cases)}
    names |= {f"q{number}": name for number, name in enumerate(NOT_STRICT)}
    written = {name: json.dumps(document).encode() for name, (document, _) in cases.items()}
    written |= {name: data for name, (data, _) in NOT_STRICT.items()}
    for release, name in names.items():
        # A wheel that no variant fits: what is wrong with the index is told by the index alone.
        (tmp_path / f"{release}-1.0-py3-none-any.whl").write_bytes(wheel(release, None, {}))
        (tmp_path / f"{release}-1.0-variants.json").write_bytes(written[name])
    refused = {name for release, name in names.items() if "error" in uv_log(tmp_path, [release], "9.0", "12.8")}
    assert refused == {name for name, (_, who) in cases.items() if who == "uv"} | {*NOT_STRICT} - {"a label twice"}


_READS = """
import json, sys
from variantlib.errors import ValidationError
from variantlib.variants_json import VariantsJson
for line in sys.stdin:
    try:
        VariantsJson(json.loads(line))
        print("read")
    except (ValidationError, AttributeError) as error:
        print("refused")
"""


@pytest.mark.reference
def test_variantlib_refuses_what_uv_accepts() -> None:
    names = [name for name, (_, _, who) in WRONG.items() if who != "uv"]
    lines = "".join(f"{json.dumps(WRONG[name][0])}\n" for name in names) + json.dumps(RIGHT)
    command = [reference.variant_tool("python"), "-c", _READS]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    expected = ["refused" if WRONG[name][2] == "variantlib" else "read" for name in names]
    assert done.stdout.split() == [*expected, "read"]
