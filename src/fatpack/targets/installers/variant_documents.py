"""Descriptions of variants: ``variant.json`` of a wheel and the index file of a release, with what installers refuse.

::

    {"$schema": "https://…/v0.2.0.json",
     "default-priorities": {"namespace": ["nvidia"]},
     "providers": {"nvidia": {"requires": ["nvidia-variant-provider>=0.0.1"], "plugin-api": "…"}},
     "variants": {"sm90": {"nvidia": {"sm_arch": ["90_real"], "cuda_version_lower_bound": ["12.0"]}}}}

Both files have the same keys. A wheel has one variant, that of its file name; an index file has those of all wheels.

Sources: PEP 825 and PEP 850 (drafts). Each rule was tried: uv 0.13.9 refuses the document, or where that is said
variantlib 0.2.2 does, or the draft alone. Neither tool looks at the address of the schema, but uv wants one.
"""

from __future__ import annotations

import re

from fatpack.record import Record
from fatpack.strict_json import InvalidJson, parse_strict_json
from fatpack.targets.installers.variant_providers import NULL_LABEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, TypeAlias

    #: namespace → feature → values
    VariantProperties: TypeAlias = "Mapping[str, Mapping[str, tuple[str, ...]]]"

_KEYS = ("$schema", "default-priorities", "providers", "variants")


class VariantSchema(Record):
    """A version of the format: its ``address`` in ``$schema``, and whether documents have ``providers``.

    ``readers`` says which installers it was tried with, and what they do.
    """

    address: str
    has_providers: bool
    readers: str


#: The one table of versions, the newest first. When uv or variantlib read others, the test of their versions
#: (tests/commands/split/test_installers.py) fails, and says what is to be done.
SCHEMAS = {
    "0.2.0": VariantSchema(
        "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
        True,
        "uv 0.13.9 and variantlib 0.2.2 read it; variantlib writes an older address",
    ),
    "0.1.1": VariantSchema(
        "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json",
        False,
        "uv 0.13.9 reads it and takes null, as it names no providers; variantlib 0.2.2 refuses it for that",
    ),
}

#: The version that is written if none is named.
NEWEST_SCHEMA = "0.2.0"

#: The addresses of versions without ``providers``.
_WITHOUT_PROVIDERS = frozenset(schema.address for schema in SCHEMAS.values() if not schema.has_providers)

#: The keys of a provider by the one that says which kind it is, and those that go with it. ``builtin`` is variantlib's
#: own; uv reads it and skips the provider.
_PROVIDERS = {
    "requires": ("optional", "plugin-api"),
    "static-properties": ("feature-order",),
    "builtin": ("optional",),
}

_LABEL = re.compile(r"[0-9a-z._]+")
_NAME = re.compile(r"[a-z0-9_]+")
_VALUE = re.compile(r"[a-z0-9_.]+")

#: The most characters of a label: PEP 825. uv and variantlib take longer ones.
_LONGEST_LABEL = 16

#: LIMIT: variants of a document, and values of one variant. Real releases have at most 20 of each.
_MOST_VARIANTS, _MOST_VALUES = 1000, 1000

#: LIMIT: characters of a text from a file that a message repeats
_SHOWN = 64


class InvalidVariants(Exception):
    """A description of variants that installers refuse, and why: the key, what is wrong with it, what is expected."""


class VariantDocument(Record):
    """A description of variants: ``variants`` by their labels, ``priorities`` of namespaces, and their ``providers``.

    ``schema`` is the address that the document names.
    """

    schema: str
    priorities: tuple[str, ...]
    providers: Mapping[str, Mapping[str, Any]]
    variants: Mapping[str, VariantProperties]

    @property
    def shared(self) -> dict[str, object]:
        """All that wheels and index file of a release have in common: every key but ``variants``, by its name."""
        priorities = {"namespace": list(self.priorities)}
        return {"$schema": self.schema, "default-priorities": priorities, "providers": self.providers}


def parse_json(data: bytes) -> object:
    """Return the value of a description of variants. Raises InvalidVariants for JSON that uv does not read.

    uv refuses a key of the format twice, and takes a label twice; other readers may take the other one.
    """
    try:
        return parse_strict_json(data)
    except InvalidJson as error:
        raise InvalidVariants(str(error)) from None


def parse_variants(data: bytes) -> VariantDocument:
    """Return a description of variants. Raises InvalidVariants for one that installers refuse."""
    document = _object(parse_json(data), "it")
    unknown = next((key for key in document if key not in _KEYS), None)
    if unknown is not None:
        raise InvalidVariants(f"it has the key {_shown(unknown)!r}, and the only keys are {', '.join(_KEYS)}")
    # Only text is looked up in a set: lists have no hash.
    is_bare = isinstance(document.get("$schema"), str) and document["$schema"] in _WITHOUT_PROVIDERS
    optional = ("providers",) if is_bare else ()
    missing = next((key for key in _KEYS if key not in document and key not in optional), None)
    if missing is not None:
        raise InvalidVariants(f"it has no key {missing}")
    schema = document["$schema"]
    if not isinstance(schema, str):
        raise InvalidVariants("$schema is no text")
    priorities = _priorities(document["default-priorities"])
    told = _object(document.get("providers", {}), "providers")
    providers = {name: _provider(name, each) for name, each in told.items()}
    if set(providers) != set(priorities) and "providers" in document:
        text = f"{_listed(priorities)}, and providers are those of {_listed(providers)}: both must be the same"
        raise InvalidVariants(f"default-priorities: namespace has {text}")
    variants = _object(document["variants"], "variants")
    if len(variants) > _MOST_VARIANTS:
        raise InvalidVariants(f"variants has more than {_MOST_VARIANTS} labels")
    return VariantDocument(
        schema, priorities, providers, {label: _variant(label, each, priorities) for label, each in variants.items()}
    )


def _priorities(value: object) -> tuple[str, ...]:
    found = _object(value, "default-priorities")
    if list(found) != ["namespace"]:
        raise InvalidVariants(f"default-priorities has {_listed(found)}, and its only key is namespace")
    names = tuple(_strings(found["namespace"], "default-priorities: namespace", _NAME))
    if not names:
        raise InvalidVariants("default-priorities: namespace is empty")
    return names


def _provider(namespace: str, value: object) -> Mapping[str, Any]:
    where = f"providers: {_shown(namespace)}"
    _named(namespace, where, _NAME)
    found = _object(value, where)
    kinds = [kind for kind in _PROVIDERS if kind in found]
    if len(kinds) != 1:
        raise InvalidVariants(f"{where} has {_listed(kinds)}, and exactly one of {', '.join(_PROVIDERS)} is expected")
    others = [key for key in found if key != kinds[0] and key not in _PROVIDERS[kinds[0]]]
    if others:
        allowed = ", ".join((kinds[0], *_PROVIDERS[kinds[0]]))
        raise InvalidVariants(f"{where} has the key {_shown(others[0])!r}, and its keys are {allowed}")
    if kinds == ["requires"]:
        _strings(found["requires"], f"{where}: requires")
        if not isinstance(found.get("plugin-api", ""), str) or not isinstance(found.get("optional", False), bool):
            raise InvalidVariants(f"{where}: plugin-api must be a text, and optional true or false")
    elif kinds == ["static-properties"]:
        features = _features(found["static-properties"], f"{where}: static-properties")
        order = _strings(found.get("feature-order", list(features)[:1]), f"{where}: feature-order", _NAME)
        if set(order) != set(features):
            text = f"{_listed(order)}, and static-properties has {_listed(features)}: both must be the same"
            raise InvalidVariants(f"{where}: feature-order has {text}")
    return found


def _variant(label: str, value: object, namespaces: tuple[str, ...]) -> VariantProperties:
    where = f"variants: {_shown(label)}"
    _named(label, where, _LABEL)
    if len(label) > _LONGEST_LABEL:
        raise InvalidVariants(f"{where}: the label has {len(label)} characters, and {_LONGEST_LABEL} are the most")
    found = {name: _features(each, f"{where}: {_shown(name)}") for name, each in _object(value, where).items()}
    if sum(len(values) for features in found.values() for values in features.values()) > _MOST_VALUES:
        raise InvalidVariants(f"{where} has more than {_MOST_VALUES} values")
    if (label == NULL_LABEL) != (not any(found.values())):
        has = "no properties, as null alone has" if label != NULL_LABEL else "properties, and null has none"
        raise InvalidVariants(f"{where} has {has}")  # of another label without properties: variantlib
    unknown = next((name for name in found if name not in namespaces), None)
    if unknown is not None:
        raise InvalidVariants(f"{where}: {_shown(unknown)} is none of the namespaces in default-priorities")
    return found


def _features(value: object, where: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for name, values in _object(value, where).items():
        _named(name, f"{where} :: {_shown(name)}", _NAME)
        found[name] = tuple(_strings(values, f"{where} :: {name}", _VALUE))
        if not found[name]:
            raise InvalidVariants(f"{where} :: {name} has no value")
    return found


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidVariants(f"{where} is no object")
    return value


def _strings(value: object, where: str, form: re.Pattern[str] | None = None) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidVariants(f"{where} is no list of texts")
    for item in value if form is not None else ():
        _named(item, f"{where}: {_shown(item)!r}", form)
    if len(set(value)) < len(value):
        raise InvalidVariants(f"{where} has a value twice")
    return value


def _named(text: str, where: str, form: re.Pattern[str] | None) -> None:
    if form is not None and form.fullmatch(text) is None:
        raise InvalidVariants(f"{where}: the only characters are {_characters(form)}")


def _characters(form: re.Pattern[str]) -> str:
    return "a to z, 0 to 9 and _" + ("" if form is _NAME else " and .")


def _listed(names: Iterator[str] | Mapping[str, object] | list[str] | tuple[str, ...]) -> str:
    return ", ".join(map(_shown, list(names)[:12])) or "nothing"


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
