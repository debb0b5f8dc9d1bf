"""Descriptions of variants in wheels and in the index file of their release, and why installers refuse them.

==============================================  ===================================================================
``NAME-…-LABEL.whl!*.dist-info/variant.json``   has the variant of the file name, in a form that installers accept
``NAME-VERSION-variants.json`` beside wheels    says the same of every label
==============================================  ===================================================================

No device code is looked at. ``doctor`` says all of this; ``check --metadata`` says the same, and judges the code too.
"""

from __future__ import annotations

import os

from fatpack.errors import FatpackError
from fatpack.exit_codes import error_message
from fatpack.inputs.files import MemberPath
from fatpack.inputs.reopen import reopen
from fatpack.io.open import read_regular_file
from fatpack.model import Finding
from fatpack.packages import get_package
from fatpack.packages.wheel_names import INDEX_END, LABEL, indexed_release, split_wheel_name
from fatpack.record import Record
from fatpack.targets.installers.variant_documents import InvalidVariants, VariantDocument, parse_variants
from fatpack.targets.installers.variant_providers import is_built_into_uv, never_listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from fatpack.io.source import Source
    from fatpack.limits import Budget
    from fatpack.packages.wheel_names import WheelName
    from fatpack.tabular.file_image_sets import FileImageSets
    from fatpack.targets.installers.variant_documents import VariantProperties

#: LIMIT: bytes of a description, and of RECORD
MAX_SIZE = 4 << 20

#: most names that one message lists
_NAMED = 12

_INFO = ".dist-info"


class DescriptionProblem(Record):
    """A part of a description that installers refuse, or a note: the ``code`` of a finding, and its words."""

    code: str
    path: str
    subject: str
    message: str
    hint: str = ""


class VariantWheel(Record):
    """A wheel as installers see it: its ``path``, its ``name``, and what its ``variant.json`` says.

    ``problem`` is why it cannot be read, ``is_listed`` whether RECORD has it. ``libraries`` are the files in the wheel
    that have device code.
    """

    path: str
    name: WheelName
    document: VariantDocument | None
    problem: str
    is_listed: bool
    libraries: tuple[FileImageSets, ...]

    @property
    def properties(self) -> VariantProperties:
        """The properties of its variant; none of a wheel without a label, or whose description cannot be read."""
        return {} if self.document is None else self.document.variants.get(self.name.label, {})


def releases(wheels: Sequence[VariantWheel]) -> list[list[VariantWheel]]:
    """Return wheels by their releases, those of each folder apart."""
    found: dict[object, list[VariantWheel]] = {}
    for wheel in wheels:
        folder = "" if isinstance(wheel.path, MemberPath) else os.path.dirname(wheel.path)
        found.setdefault((folder, wheel.name.release), []).append(wheel)
    return list(found.values())


def description_problems(wheels: Sequence[VariantWheel]) -> Iterator[DescriptionProblem]:
    """Yield reasons for which installers refuse the descriptions of wheels and index files, and notes about them."""
    for release in releases(wheels) if has_variants(wheels) else ():
        for wheel in filter(is_no_json, release):
            text = f"its declaration cannot be read: {wheel.problem}"
            yield DescriptionProblem("FP3301", wheel.path, "variant.json", text)
        yield from release_problems(release)


def release_problems(release: Sequence[VariantWheel]) -> Generator[DescriptionProblem, None, VariantDocument | None]:
    """Yield problems of the descriptions of one release, except descriptions that are no JSON; return the index."""
    for wheel in (wheel for wheel in release if not is_no_json(wheel)):
        yield from _described(wheel)
    index = yield from _compared_with_index(release)
    yield from _compared(release)
    return index


def has_variants(wheels: Sequence[VariantWheel]) -> bool:
    """Return whether any wheel has a variant, or is labelled as one."""
    return any(wheel.name.label or wheel.document or wheel.problem for wheel in wheels)


def is_no_json(wheel: VariantWheel) -> bool:
    """Return whether the description of a wheel cannot be read at all."""
    return wheel.problem.startswith("it is no JSON")


def read_wheel(path: str, name: WheelName, budget: Budget, libraries: tuple[FileImageSets, ...] = ()) -> VariantWheel:
    """Return a wheel of a name, with the files in it that have device code. Nothing is raised if it cannot be read."""
    return VariantWheel(path, name, *read_description(path, budget), libraries)


def read_description(path: str, budget: Budget) -> tuple[VariantDocument | None, str, bool]:
    """Return ``variant.json`` of a wheel, the reason if installers refuse it, and whether RECORD lists it."""
    data, record, problem = _read_info(path, budget)
    document = None
    if data is not None and not problem:
        try:
            document = parse_variants(data)
        except InvalidVariants as error:
            problem = str(error)
    return document, problem, record is None or b"variant.json," in record


def _read_info(path: str, budget: Budget) -> tuple[bytes | None, bytes | None, str]:
    """Return ``variant.json`` and RECORD of a wheel, None where there is none, and why one cannot be read."""
    found: dict[str, bytes] = {}
    try:
        with reopen(path, budget) as source:
            for item in get_package("zip").members(source.view()):
                folder, _, file = ("", "", "") if isinstance(item, Finding) else item.name.rpartition("/")
                if file in ("variant.json", "RECORD") and folder.endswith(_INFO) and "/" not in folder:
                    with item.open() as opened:  # type: ignore[union-attr]  # no finding has a name
                        found[file] = _beginning(opened)
    except InvalidVariants as error:
        return b"", found.get("RECORD"), str(error)
    except (FatpackError, OSError) as error:
        return b"", found.get("RECORD"), error_message(error)
    return found.get("variant.json"), found.get("RECORD"), ""


def _beginning(source: Source) -> bytes:
    return _bounded(source.beginning(MAX_SIZE + 1))


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_SIZE:
        raise InvalidVariants(f"it has more than {MAX_SIZE} bytes")
    return data


def index_path(path: str, release: tuple[str, str]) -> str | None:
    """Return the path of the index file beside a wheel of a release; None where there is none, or in a package."""
    if isinstance(path, MemberPath):
        return None
    folder = os.path.dirname(path)
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:  # a URL, or a folder that may not be listed
        return None
    same = (name for name in names if indexed_release(name) == release)
    return next((os.path.join(folder, name) for name in same), None)


# One wheel: its label, its description, and the values that providers list.


def read_index(path: str) -> VariantDocument:
    """Return the content of an index file. Raises InvalidVariants, ``OSError``, and UsageError for no regular file."""
    data = read_regular_file(path, MAX_SIZE + 1, "remove it, and write the index file anew")
    return parse_variants(_bounded(data))


def _described(wheel: VariantWheel) -> Iterator[DescriptionProblem]:
    label = wheel.name.label
    hint = "write variant.json and the file name with one label, as `variantlib make-variant` does"
    if label and LABEL.fullmatch(label) is None:
        text = f"the label {label!r} in its name has other characters than a to z, 0 to 9, _ and ."
        yield DescriptionProblem("FP3330", wheel.path, "label", text, hint)
    if wheel.problem:
        yield DescriptionProblem(
            "FP3330", wheel.path, "variant.json", f"variant.json is refused: {wheel.problem}", hint
        )
    elif wheel.document is None:
        if label:
            text = f"it has no variant.json, and its name says that it is the variant {label}"
            yield DescriptionProblem("FP3330", wheel.path, "variant.json", text, hint)
    elif list(wheel.document.variants) != [label]:
        names = ", ".join(list(wheel.document.variants)[:_NAMED]) or "none"
        of = f"the label {label}" if label else "no label"
        yield DescriptionProblem(
            "FP3330", wheel.path, "label", f"variant.json has the variants {names}, and the file name has {of}", hint
        )
    if wheel.document is None:
        return
    if not wheel.is_listed:
        text = "RECORD does not list variant.json, so that installers may leave it out"
        yield DescriptionProblem("FP3330", wheel.path, "RECORD", text, "add variant.json to RECORD")
    yield from _listed(wheel, wheel.document)


def _listed(wheel: VariantWheel, document: VariantDocument) -> Iterator[DescriptionProblem]:
    for namespace, features in wheel.properties.items():
        for feature, values in features.items():
            unknown = never_listed(document.providers[namespace], namespace, feature, values)
            where, names = f"{namespace} :: {feature}", ", ".join(unknown[:_NAMED])
            if len(unknown) == len(values):
                text = f"no provider lists {names} for {where}, and no other value is asked for: no machine fits"
                hint = "NVIDIA's lists 90_real and 90_virtual for 9.0: no letters after numbers, no 86_virtual"
                yield DescriptionProblem("FP3333", wheel.path, where, text, hint if namespace == "nvidia" else "")
            elif unknown:
                text = f"no provider lists {names} for {where}: only the other values count"
                yield DescriptionProblem("FP3334", wheel.path, where, text)
        provider = document.providers[namespace]
        if features and "static-properties" not in provider and not is_built_into_uv(namespace, provider):
            text = f"uv 0.13.9 does not have the provider of {namespace} as it is described, and takes no such variant"
            yield DescriptionProblem("FP3334", wheel.path, namespace, text)


# The wheels of one release: each wheel and the index must describe a label alike.


def _compared_with_index(
    release: Sequence[VariantWheel],
) -> Generator[DescriptionProblem, None, VariantDocument | None]:
    """Yield the differences between wheels and the index file beside them; return the index file, if there is one."""
    path = index_path(release[0].path, release[0].name.release)
    labels = [wheel for wheel in release if wheel.name.label]
    if path is None and labels and not isinstance(labels[0].path, MemberPath):
        missing = "-".join(labels[0].name.release) + INDEX_END
        text = f"{missing} is not beside it: installers know no label without the index file of the release"
        yield DescriptionProblem("FP3336", labels[0].path, "index", text)
    if path is None:
        return None
    try:
        index = read_index(path)
    except InvalidVariants as error:
        yield DescriptionProblem("FP3330", path, "index", f"the index file is refused: {error}")
        return None
    except (FatpackError, OSError) as error:
        yield DescriptionProblem("FP3301", path, "index", error_message(error))
        return None
    hint = "write the index file from the wheels: `variantlib generate-index-json -d DIR`"
    for wheel in release:
        label, own = wheel.name.label, wheel.document
        if not label or own is None:
            continue
        if label not in index.variants:
            text = f"the index file has no variant {label}: installers do not take the wheel"
            yield DescriptionProblem("FP3331", wheel.path, label, f"{text} ({path})", hint)
        elif index.variants[label] != wheel.properties:
            text = _difference(index.variants[label], wheel.properties)
            yield DescriptionProblem("FP3331", wheel.path, label, f"the index file says {text} ({path})", hint)
        for key in (key for key, value in index.shared.items() if own.shared[key] != value):
            text = f"{key} is not the same in the index file and in variant.json ({path})"
            yield DescriptionProblem("FP3331", wheel.path, key, text, hint)
    beside = {name.label for each in os.listdir(os.path.dirname(path) or ".") if (name := split_wheel_name(each))}
    for label in (label for label in index.variants if label not in beside):
        text = f"the index file has the variant {label}, and no wheel beside it has that label"
        yield DescriptionProblem("FP3331", path, label, text, hint)
    return index


def _difference(said: VariantProperties, own: VariantProperties) -> str:
    """Return the first property of two variants that differs, in words."""
    pairs = [
        (namespace, feature) for each in (said, own) for namespace, features in each.items() for feature in features
    ]
    for namespace, feature in pairs:
        one, other = (each.get(namespace, {}).get(feature, ()) for each in (said, own))
        if one != other:
            words = [", ".join(values) or "nothing" for values in (one, other)]
            return f"{words[0]} of {namespace} :: {feature}, and variant.json {words[1]}"
    return "something else than variant.json"


def _compared(release: Sequence[VariantWheel]) -> Iterator[DescriptionProblem]:
    """Yield where two wheels of a release describe one label, or what they share, differently."""
    first: dict[str, VariantWheel] = {}
    for wheel in (wheel for wheel in release if wheel.name.label and wheel.document is not None):
        other = first.setdefault(wheel.name.label, wheel)
        if other.properties != wheel.properties:
            text = f"{other.name.file_name} says {_difference(other.properties, wheel.properties)}"
            yield DescriptionProblem(
                "FP3331", wheel.path, wheel.name.label, text, "one label means one thing in a release"
            )
        leader = next(iter(first.values()))
        assert leader.document is not None
        assert wheel.document is not None
        if leader.document.shared != wheel.document.shared:
            text = f"variant.json has other providers, priorities or another schema than {leader.name.file_name}"
            yield DescriptionProblem(
                "FP3331", wheel.path, "providers", text, "all wheels of a release share these keys"
            )
