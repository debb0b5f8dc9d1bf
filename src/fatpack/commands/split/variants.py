"""``variant.json`` of a variant wheel and the index file of a release, as ``split`` writes them.

Both have the same fields; a wheel has its own label alone under ``variants``, the index file those of all wheels.
:mod:`fatpack.targets.installers.variant_documents` reads them, and has the one table of schema versions.
"""

from __future__ import annotations

import json

from fatpack.errors import UsageError, cli_or_api
from fatpack.packages.wheel_names import LABEL, LONGEST_LABEL
from fatpack.targets.installers.variant_documents import SCHEMAS, VariantSchema
from fatpack.targets.installers.variant_providers import NULL_LABEL, NVIDIA_PLUGIN, NVIDIA_PROJECT, UV_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.targets.installers.variant_documents import VariantDocument
    from fatpack.targets.installers.variant_providers import Properties

#: vendor → how installers find what a machine has
PROVIDERS = {
    "nvidia": {"requires": [f"{NVIDIA_PROJECT}>={UV_VERSION}"], "plugin-api": NVIDIA_PLUGIN},
    "amd": {
        "requires": ["amd-variant-provider>=0.0.1"],
        "plugin-api": "amd_variant_provider.plugin:AMDVariantPlugin",
    },
}

#: LIMIT: characters of a document that a message repeats
_SHOWN = 200

#: the file in a wheel's ``.dist-info`` folder
VARIANT_FILE = "variant.json"


def check_label(label: str) -> str:
    """Return a label. Raises UsageError for one that installers refuse, or that means something else."""
    if LABEL.fullmatch(label) is None or len(label) > LONGEST_LABEL:
        text = f"label {label[:40]!r}: a label is small letters, digits, . and _, at most {LONGEST_LABEL}"
        raise UsageError(text, hint=cli_or_api("--by hopper=sm_90 gives another label", "by='hopper=sm_90'"))
    if label == NULL_LABEL:
        raise UsageError("null is the label of the wheel for all others", hint="give another one")
    return label


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


def unlike_ours(document: VariantDocument) -> Iterator[str]:
    """Yield what a document says otherwise than :func:`make_document`, beside its variants: schema and providers.

    Installers run what a provider names, so that another one is as good as another package.
    """
    schema = next((schema for schema in SCHEMAS.values() if schema.address == document.schema), None)
    if schema is None:
        yield _unlike("$schema", " or ".join(schema.address for schema in SCHEMAS.values()), document.schema)
    vendors = [vendor for vendor in PROVIDERS if vendor in document.priorities]
    if vendors != list(document.priorities):
        yield _unlike("default-priorities: namespace", vendors or list(PROVIDERS), document.priorities)
    for vendor, found in document.providers.items():
        expected: Mapping[str, Any] = PROVIDERS.get(vendor, {})
        for key in dict.fromkeys((*expected, *found)):
            if expected.get(key) != found.get(key):
                yield _unlike(f"providers: {vendor}: {key}", expected.get(key, ()), found.get(key, ()))


def _unlike(where: str, expected: object, found: object) -> str:
    one, two = (
        ", ".join(map(str, each)) if isinstance(each, (list, tuple)) else str(each) for each in (expected, found)
    )
    return f"{where}: expected {one or 'nothing'}, found {two[:_SHOWN] or 'nothing'}"


def _plain(properties: Properties) -> dict[str, dict[str, list[str]]]:
    return {
        vendor: {feature: list(values) for feature, values in features.items()}
        for vendor, features in properties.items()
    }
