"""``variant.json`` of a variant wheel, and the index file of a release: schema versions, documents made and read.

Both have the same fields; a wheel has its own label alone under ``variants``, the index file those of all wheels:

==================  ============================================================================================
``$schema``         the version of the format: an address that is a name, and is not fetched
default-priorities  ``namespace``: the vendors, the most important first
``providers``       vendor → the plug-in that lists what a machine has (not in schema 0.1.1)
``variants``        label → vendor → feature → values; ``null`` has none, and fits every machine
==================  ============================================================================================

Sources: PEP 825 and PEP 850, which are drafts; uv 0.13.9 and variantlib 0.2.2 read what is written here.
"""

from __future__ import annotations

import json
import re

from fatpack.errors import BadValue, UsageError, cli_or_api
from fatpack.record import Record
from fatpack.targets.installers.variant_providers import NULL_LABEL, NVIDIA_PLUGIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from fatpack.targets.installers.variant_providers import Properties


class VariantSchema(Record):
    """A version of the format: its address in ``$schema``, and whether it has ``providers``.

    ``readers`` are versions of installers with which it was tried.
    """

    address: str
    has_providers: bool
    readers: str


#: The one table of schema versions; the newest is written by default. When uv or variantlib change theirs,
#: ``tests/commands/split/test_installers.py`` fails and says what is to be done here.
SCHEMAS = {
    "0.2.0": VariantSchema(
        "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json", True, "uv 0.13.9, variantlib 0.2.2"
    ),
    "0.1.1": VariantSchema(
        "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json", False, "uv 0.13.9 without any provider"
    ),
}

#: the version that is written if none is named
NEWEST = "0.2.0"

#: vendor → how installers find what a machine has
PROVIDERS = {
    "nvidia": {"requires": ["nvidia-variant-provider>=0.0.1"], "plugin-api": NVIDIA_PLUGIN},
    "amd": {
        "requires": ["amd-variant-provider>=0.0.1"],
        "plugin-api": "amd_variant_provider.plugin:AMDVariantPlugin",
    },
}

#: the file in a wheel's ``.dist-info`` folder, and what the name of the index file ends with
VARIANT_FILE, INDEX_SUFFIX = "variant.json", "-variants.json"

#: LIMIT: bytes of a document, which is read whole; one of 100 labels has 20 kB
LARGEST = 4 << 20

_LABEL = re.compile(r"[0-9a-z._]{1,16}")
_NAME, _VALUE = re.compile(r"[a-z0-9_]+"), re.compile(r"[a-z0-9_.]+")

#: a wheel's name whose last part is a label: tags have letters that labels lack, or an order that labels break
_LABELLED = re.compile(r"(?P<rest>[^-]+-[^-]+(-\d[^-]*)?-[^-]+-[^-]+-[^-]+)-(?P<label>[0-9a-z._]+)\.whl")


def check_label(label: str) -> str:
    """Return a label. Raises UsageError for one that installers refuse, or that means something else."""
    if _LABEL.fullmatch(label) is None:
        text = f"label {label[:40]!r}: a label is small letters, digits, . and _, at most 16"
        raise UsageError(text, hint=cli_or_api("--by hopper=sm_90 gives another label", "by='hopper=sm_90'"))
    if label == NULL_LABEL:
        raise UsageError("null is the label of the wheel for all others", hint="give another one")
    return label


def split_variant_name(file_name: str) -> tuple[str, str]:
    """Return the name of a wheel without its label, and the label; "" for a wheel without one."""
    found = _LABELLED.fullmatch(file_name)
    return (f"{found['rest']}.whl", found["label"]) if found is not None else (file_name, "")


def schema_named(version: str) -> VariantSchema:
    """Return a schema version. Raises UsageError for an unknown one."""
    if version not in SCHEMAS:
        raise UsageError(f"schema version {version[:40]!r}", hint=f"choose from {', '.join(SCHEMAS)}")
    return SCHEMAS[version]


def make_document(variants: Mapping[str, Properties], vendors: Sequence[str], schema: VariantSchema) -> bytes:
    """Return a document with some labels; ``vendors`` are those of all labels of the release, in their order."""
    document: dict[str, Any] = {
        "$schema": schema.address,
        "default-priorities": {"namespace": list(vendors)},
        "providers": {vendor: PROVIDERS[vendor] for vendor in vendors},
        "variants": {label: _plain(properties) for label, properties in variants.items()},
    }
    if not schema.has_providers:
        del document["providers"]
    return json.dumps(document, indent=2).encode() + b"\n"


def _plain(properties: Properties) -> dict[str, dict[str, list[str]]]:
    return {
        vendor: {feature: list(values) for feature, values in features.items()}
        for vendor, features in properties.items()
    }


class VariantDocument(Record):
    """A document that was read: ``variants`` are the labels, ``shared`` all other fields."""

    variants: Mapping[str, Properties]
    priorities: Sequence[str]
    providers: Mapping[str, Mapping[str, object]]
    shared: Mapping[str, Any]


def read_document(data: bytes, chain: Sequence[str]) -> VariantDocument:
    """Return a document. Raises BadValue for what installers refuse."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _wrong("text", "JSON", str(error), chain) from None
    if not isinstance(document, dict):
        raise _wrong("text", "an object", type(document).__name__, chain)
    known = ("$schema", "default-priorities", "providers", "variants")
    others = [key for key in document if key not in known]
    if others:
        raise _wrong("fields", ", ".join(known), str(others[0])[:80], chain)
    priorities = document.get("default-priorities")
    namespaces = priorities.get("namespace") if isinstance(priorities, dict) and len(priorities) == 1 else None
    if not isinstance(namespaces, list) or not all(_is_name(one) for one in namespaces):
        raise _wrong("default-priorities", '{"namespace": […]}', str(priorities)[:80], chain)
    providers = document.get("providers", {})
    if not isinstance(providers, dict) or not all(isinstance(one, dict) for one in providers.values()):
        raise _wrong("providers", "an object for each vendor", str(providers)[:80], chain)
    variants = document.get("variants")
    if not isinstance(variants, dict):
        raise _wrong("variants", "an object", str(variants)[:80], chain)
    for label, properties in variants.items():
        _check_variant(label, properties, namespaces, chain)
    shared = {key: value for key, value in document.items() if key != "variants"}
    return VariantDocument(variants, tuple(namespaces), providers, shared)


def _check_variant(label: str, properties: object, namespaces: Sequence[str], chain: Sequence[str]) -> None:
    field = f"variants: {label[:40]}"
    if _LABEL.fullmatch(label) is None:
        raise _wrong(field, "a label of [0-9a-z._], at most 16 characters", label[:40], chain)
    features = list(properties.items()) if isinstance(properties, dict) else []
    is_right = isinstance(properties, dict) and all(
        namespace in namespaces
        and isinstance(values, dict)
        and values
        and all(
            _is_name(name) and isinstance(one, list) and one and all(map(_is_value, one))
            for name, one in values.items()
        )
        for namespace, values in features
    )
    if not is_right or (label == NULL_LABEL) != (not properties):
        expected = "no properties" if label == NULL_LABEL else "vendor → feature → values"
        raise _wrong(field, expected, str(properties)[:80], chain)


def _is_name(text: object) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _is_value(text: object) -> bool:
    return isinstance(text, str) and _VALUE.fullmatch(text) is not None


def _wrong(field: str, expected: str, found: str, chain: Sequence[str]) -> BadValue:
    return BadValue(
        "installers refuse it",
        format="variant metadata",
        field=field,
        expected=expected,
        found=found,
        hint="make it again: fatpack split",
        chain=chain,
    )
