"""Policies: requirements (devices, PTX for later devices, architectures), sizes, and the files that state them.

::

    sm_80  8.0  'RTX 4090'  gfx942  gfx90a:xnack-  pvc     a device that every unit must serve
    sm_120+ptx  12.0+PTX                                   besides, PTX that devices of later generations can compile
    sm_120!  'RTX 4090!'  gfx942!                          machine code: nothing that is compiled when it is loaded
    compute_120                                            PTX that the device and all later ones can compile
    macos14  ios17.4                                       every Metal library for that system loads on that version
    sm_90a  sm_100f                                        besides, an image for exactly that, somewhere
    @torch-2.9-cu128                                       all that a preset asks for

They are set apart by commas or semicolons, or by blanks (``7.5 8.0 9.0+PTX``, as ``TORCH_CUDA_ARCH_LIST`` of PyTorch),
if each word names a device or a preset: ``RTX 4090`` is one device.
"""

from __future__ import annotations

import fnmatch
import os
import re

from fatpack.commands.check.systems import System, parse_system
from fatpack.errors import TargetError, UsageError, cli_or_api
from fatpack.exit_codes import error_message
from fatpack.inputs.project_file import find_table, read_table, read_toml
from fatpack.printable import format_size_exactly
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.commands.check.model import RequiredDevices
    from fatpack.targets.devices import Device


# Policies in files: ``[tool.fatpack.check]`` of the nearest pyproject.toml, and the presets that fatpack brings.
#
# ::
#
#     [tool.fatpack.check]
#     require = ["@ours", "gfx942"]
#     forbid = ["sm_5*"]
#     max-size = "850MB"
#     uniform = true
#
#     [tool.fatpack.check.presets]
#     ours = "sm_80, sm_90, sm_120+ptx"
#
# A file that is named with ``--config`` may have the table at its top too, without ``tool.fatpack``.

#: name in a file → whether it is a list of texts, a text, or a switch
KEYS = {
    "require": list,
    "forbid": list,
    "exclude": list,
    "max-size": str,
    "max-growth": str,
    "against": str,
    "per": str,
    "uniform": bool,
    "no-hollow": bool,
    "allow-hollow": list,
    "allow-unread": list,
    "registered": bool,
    "strict": bool,
    "metadata": bool,
    "verify": bool,
}

#: settings of which one makes a policy
RULES = (
    "require",
    "forbid",
    "max-size",
    "max-growth",
    "against",
    "uniform",
    "no-hollow",
    "registered",
    "metadata",
    "verify",
)

_WANTED = {list: "a text or a list of texts", str: "a text", bool: "true or false"}


class PolicyConfig(Record):
    """The policy of a TOML file, by the names of :data:`KEYS`; ``presets`` are defined in it, ``path`` is the file.

    Paths in it (``against``) count from the folder of the file.
    """

    path: str
    values: Mapping[str, Any]
    presets: Mapping[str, tuple[str, ...]]


def find_pyproject() -> PolicyConfig | None:
    """Return the policy of the nearest pyproject.toml, from this folder upwards; None where it has no such table.

    Raises UsageError for a table that is wrong, and what :func:`fatpack.inputs.project_file.find_table` raises.
    """
    found = find_table("check")
    return None if found is None else _config(found[1], found[0])


def read_policy_file(path: str) -> PolicyConfig:
    """Return the policy of a file. Raises UsageError for one without a policy, and ``OSError``."""
    return _config(read_table(path, "check"), path)


def _config(table: Mapping[str, Any], path: str) -> PolicyConfig:
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name == "presets":
            continue
        kind = KEYS.get(name)
        if kind is None:
            raise UsageError(
                f"{path}: there is no setting {name!r}", hint=f"settings are {', '.join((*KEYS, 'presets'))}"
            )
        values[name] = _value(path, name, value, kind)
    if "against" in values:
        values["against"] = os.path.join(os.path.dirname(path), values["against"])
    presets = table.get("presets", {})
    if not isinstance(presets, dict):
        raise UsageError(f"{path}: presets is no table", hint="write [tool.fatpack.check.presets]")
    return PolicyConfig(path, values, {name: _value(path, name, value, list) for name, value in presets.items()})


def _value(path: str, name: str, value: object, kind: type) -> Any:
    if kind is list:
        value = [value] if isinstance(value, str) else value
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
    elif isinstance(value, kind):
        return value
    raise UsageError(f"{path}: {name} is not {_WANTED[kind]}")


class Preset(Record):
    """A preset that fatpack brings: what it requires, and the document that says so."""

    name: str
    require: str
    what: str
    source: str


def builtin_presets() -> tuple[Preset, ...]:
    """Return the presets of ``data/presets.toml``."""
    data = read_toml(os.path.join(os.path.dirname(__file__), "data", "presets.toml"))
    return tuple(Preset(name, row["require"], row["what"], row["source"]) for name, row in data.items())


def all_presets(config: PolicyConfig | None) -> dict[str, tuple[str, ...]]:
    """Return the presets: a project's own take precedence over fatpack's."""
    found = {preset.name: (preset.require,) for preset in builtin_presets()}
    return {**found, **(config.presets if config is not None else {})}


# Largest sizes, as people write them, and largest growth against an older version.


def parse_size_limit(text: str) -> int:
    """Return the bytes of a text, as :mod:`fatpack.printable` reads it. Raises UsageError for one that is no size."""
    from fatpack import printable

    try:
        return printable.parse_size(text)
    except ValueError:
        raise UsageError(f"{text!r} is no size", hint=printable.EXAMPLES) from None


def parse_growth(text: str) -> tuple[float | None, int | None]:
    """Return growth as percent or bytes, the other None: ``5%``, ``20MB``. Raises UsageError."""
    if text.endswith("%"):
        number = _number(text[:-1].strip())
        if number is None:
            raise UsageError(f"{text!r} is no growth", hint="write 5% or 20MB")
        return number, None
    return None, parse_size_limit(text)


def _number(text: str) -> float | None:
    whole, _, part = text.partition(".")
    if not (whole + part).isascii() or not (whole + part).isdecimal() or len(text) > 18:
        return None
    return float(text)


def measure_total(path: str) -> tuple[int | None, str]:
    """Return the bytes of a file, or of all files in a folder or of a pattern, and what of them cannot be measured, "".

    The bytes are None for what is neither. Links in folders are not followed, and files that say by their names that no
    device code is in them count too.
    """
    from fatpack.inputs.walk import TreeWalk
    from fatpack.io.open import is_pattern

    try:
        if os.path.isfile(path):
            return os.path.getsize(path), ""
        if os.path.isdir(path) or is_pattern(path):
            walk = TreeWalk([path], as_named=True)
            places = list(walk)
            problems = [f"{place.path}: {place.problem}" for place in places if place.problem]
            problems += (f"no file matches {pattern}" for pattern in walk.unmatched)
            return sum(place.size for place in places), problems[0] if problems else ""
    except OSError as error:
        return None, error_message(error)
    return None, "there is no such file or folder"


def has_known_size(path: str) -> bool:
    """Return whether the bytes of a file, a folder or a pattern are known without reading a file."""
    size, problem = measure_total(path)
    return size is not None and not problem


def measure_earlier(names: Sequence[str], against: str) -> tuple[int | None, str, str]:
    """Return the bytes that ``names`` are compared with, a problem and advice, each "" if there is none.

    A folder, and a pattern, is compared with all of ``against``. A file is compared with a file: with its counterpart,
    if ``against`` is a folder or a pattern.
    """
    from fatpack.inputs.walk import TreeWalk
    from fatpack.io.open import is_pattern

    is_many = os.path.isdir(against) or is_pattern(against)
    total, problem = measure_total(against)
    if total is None or problem or not is_many or any(os.path.isdir(name) or is_pattern(name) for name in names):
        return total, problem and f"it cannot be measured: {problem}", ""
    sizes = {place.path: place.size for place in TreeWalk([against], as_named=True)}
    total = 0
    for name in names:
        found = _counterparts(name, sizes)
        if len(found) != 1:
            base = os.path.basename(name)
            said = f"several files in it correspond to {base}: {', '.join(found[:3])}"
            example = found[0] if found else os.path.join("FOLDER", "OLD" + os.path.splitext(base)[1])
            way = cli_or_api(f"--against {example}", f"against={example!r}")
            return None, said if found else f"no file in it corresponds to {base}", f"name the earlier file: {way}"
        total += sizes[found[0]]
    return total, "", ""


def _counterparts(name: str, paths: Iterable[str]) -> list[str]:
    """Return the paths whose file has the name of a file; else those of its project, or its library, as it is built.

    Of the wheels of one project those with the same tags come first: there is one for each Python and each platform.
    """
    base = os.path.basename(name.rpartition("!")[2])
    by_name = {path: os.path.basename(path) for path in paths}
    same = [path for path, other in by_name.items() if other == base]
    if same:
        return same
    kind, tags = _without_version(base)
    alike = {path: _without_version(other) for path, other in by_name.items()}
    found = [path for path, (other, _) in alike.items() if other == kind]
    return [path for path in found if alike[path][1] == tags] or found


def _without_version(base: str) -> tuple[str, str]:
    """Return the name of a wheel or a library without its version, and the tags of a wheel.

    ``demo-1.2-py3-none-any-sm90.whl`` is ``demo.whl`` with ``py3-none-any-sm90`` (:mod:`fatpack.packages.wheel_names`),
    and ``libx.so.12.1`` is ``libx.so``.
    """
    from fatpack.packages.wheel_names import normalize_project, split_wheel_name

    wheel = split_wheel_name(base)
    if wheel is not None:
        return f"{normalize_project(wheel.distribution)}.whl", "-".join(filter(None, (wheel.tags, wheel.label)))
    return re.sub(r"(\.so)(\.\d+)+$", r"\1", base), ""


#: LIMIT: presets that name presets
_DEEPEST = 8


class Requirement(Record):
    """A device that must be served; ``wants_ptx``: later ones too; ``exact``: an image for each of these.

    ``is_native`` asks for machine code: what a driver compiles when it loads it does not serve. ``text`` asks for PTX
    instead of the device: ``compute_120``.
    """

    device: Device
    wants_ptx: bool = False
    exact: tuple[str, ...] = ()
    is_native: bool = False
    text: str = ""

    @property
    def title(self) -> str:
        """The device as messages call it, or what it must be served by."""
        if self.text:
            return self.text
        return f"machine code for {self.device.words}" if self.is_native else self.device.words

    @property
    def words(self) -> str:
        """Text of the requirement, as violations show it."""
        return f"{self.text or self.device.words}{'+ptx' if self.wants_ptx else ''}{'!' if self.is_native else ''}"


def parse_systems(texts: Iterable[str], presets: Mapping[str, Sequence[str]]) -> tuple[System, ...]:
    """Return the systems that some texts ask for, each once. Raises UsageError."""
    return tuple(dict.fromkeys(filter(None, map(parse_system, _items(texts, presets, ())))))


def parse_forbidden(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns of architectures in some texts, with commas between. Raises UsageError for one that no name
    can match: it would silently forbid nothing.
    """
    from fatpack.targets.vocabulary import load_vocabulary, nearest_names

    found = tuple(part.strip() for text in texts for part in text.split(","))
    known = load_vocabulary().names()
    for pattern in found:
        if not pattern:
            raise UsageError("forbidden architectures: a pattern is empty", hint="give patterns as sm_5*")
        if not any(fnmatch.fnmatchcase(name, pattern.partition(":")[0]) for name in known):
            near = nearest_names(pattern)
            hint = f"did you mean {', '.join(near)}?" if near else "names are as sm_90 and gfx90a, patterns as sm_5*"
            raise UsageError(f"no architecture that is known matches {pattern[:64]!r}", hint=hint)
    return found


def parse_requirements(texts: Iterable[str], presets: Mapping[str, Sequence[str]]) -> tuple[Requirement, ...]:
    """Return what some texts ask for, each device once. Raises UsageError and TargetError."""
    found: dict[str, Requirement] = {}
    for item in _items(texts, presets, ()):
        if parse_system(item) is not None:
            continue
        one = _requirement(item)
        key = one.text or one.device.arch
        before = found.get(key)
        if before is not None:
            one = before.replace(
                wants_ptx=before.wants_ptx or one.wants_ptx,
                exact=tuple(dict.fromkeys((*before.exact, *one.exact))),
                is_native=before.is_native or one.is_native,
            )
        found[key] = one
    return tuple(found.values())


def _items(texts: Iterable[str], presets: Mapping[str, Sequence[str]], within: tuple[str, ...]) -> Iterator[str]:
    from fatpack.targets.vocabulary import nearest_names

    for text in texts:
        for part in split_list(text):
            if not part.startswith("@"):
                yield part
                continue
            name = part[1:]
            if name in within or len(within) >= _DEEPEST:
                raise UsageError(f"preset @{name} names itself", hint="let presets name only others")
            if name not in presets:
                near = nearest_names(name, presets)
                hint = f"did you mean {' or '.join(f'@{each}' for each in near)}?" if near else ""
                known = ", ".join(f"@{each}" for each in presets)
                raise UsageError(f"no preset @{name}", hint=hint or f"presets are {known or 'none'}")
            yield from _items(presets[name], presets, (*within, name))


def split_list(text: str) -> list[str]:
    """Return the items of a list. Raises UsageError for an empty one."""
    parts = [part.strip() for part in text.replace(";", ",").split(",")]
    if any(not part for part in parts):
        raise UsageError(f"{text!r} has an empty item", hint="write sm_80,sm_90,sm_120+ptx")
    found: list[str] = []
    for part in parts:
        words = part.split()
        found += words if len(words) > 1 and not _is_item(part) and all(map(_is_item, words)) else [part]
    return found


def _is_item(word: str) -> bool:
    """Return whether a text is an item of a list by itself."""
    if word.startswith("@"):
        return " " not in word
    if parse_system(word) is not None:
        return True
    try:
        _requirement(word)
    except UsageError:  # compute_90!, gfx942+ptx: meant as an item, and refused as one
        return True
    except TargetError:
        return False
    return True


def _requirement(text: str) -> Requirement:
    from fatpack.targets.devices import parse_device
    from fatpack.targets.nvidia import parse_nvidia

    is_native = "!" in (text[-1:], text.rpartition("+")[0][-1:])
    plain = "+".join(part.removesuffix("!") for part in text.rsplit("+", 1)) if is_native else text
    bare, plus, rest = plain.rpartition("+")
    wants_ptx = bool(plus) and rest.lower() == "ptx"
    name = (bare if wants_ptx else plain).strip()
    if name[:1].isdigit() and name[-1:] in ("a", "f") and "." in name:  # 9.0a, as PyTorch writes it
        name = f"sm_{name.replace('.', '', 1)}"
    arch = parse_nvidia(name)
    if arch is not None and arch.is_virtual:
        if wants_ptx or is_native:
            raise UsageError(
                f"{text}: {name} is PTX alone", hint=f"write {name}, or sm_{arch.number}{text[len(name) :]}"
            )
        return Requirement(parse_device(f"sm_{name[8:]}"), exact=(arch.name,) if arch.suffix else (), text=arch.name)
    found = parse_device(name)
    if wants_ptx and found.vendor != "nvidia":
        raise UsageError(f"{text}: only NVIDIA devices compile PTX", hint=f"write {name}")
    return Requirement(found, wants_ptx, (arch.name,) if arch is not None and arch.suffix else (), is_native)


# The policy: one record for the command and the library, and its rules in words.

#: the rule about what packages declare, in words
METADATA_RULE = "packages have what they declare"


class Policy(Record):
    """The rules for files; ``per`` is what must serve each device: every ``unit``, or some unit of every ``library``.

    ``max_growth`` is a text as ``5%`` or ``20MB``, against the file or folder ``against``. ``names_kernels`` reads the
    kernels of large libraries too, to name the incomplete ones. ``verify`` reads every file to its last byte.
    ``strict`` fails what ``registered`` could not judge. ``allow_hollow`` are regular expressions for the names of
    kernels that ``no_hollow`` accepts. ``allow_unread`` are kinds of files that are not read and may hold device code.
    """

    require: tuple[Requirement, ...] = ()
    systems: tuple[System, ...] = ()
    forbid: tuple[str, ...] = ()
    max_size: int | None = None
    max_growth: str = ""
    against: str = ""
    uniform: bool = False
    no_hollow: bool = False
    allow_hollow: tuple[str, ...] = ()
    allow_unread: tuple[str, ...] = ()
    registered: bool = False
    strict: bool = False
    metadata: bool = False
    per: str = "unit"
    exclude: tuple[str, ...] = ()
    deep: bool = False
    names_kernels: bool = False
    verify: bool = False

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules in words."""
        from fatpack.commands.check.headline import REGISTERED

        wanted = [item.words for item in self.require]
        found = [f"every {self.per} serves {', '.join(wanted)}"] if wanted else []
        found += [f"Metal libraries load on {', '.join(item.words for item in self.systems)}"] if self.systems else []
        found += [f"nothing is for {', '.join(self.forbid)}"] if self.forbid else []
        found += [f"at most {format_size_exactly(self.max_size)}"] if self.max_size is not None else []
        found += [f"grows by {self.max_growth} at most against {self.against}"] if self.max_growth else []
        found += ["every kernel on every architecture of its library"] if self.uniform else []
        found += ["no kernel does nothing on one architecture and something on another"] if self.no_hollow else []
        found += [REGISTERED] if self.registered else []
        found += [METADATA_RULE] if self.metadata else []
        found += ["no file is damaged"] if self.verify else []
        return tuple(found)

    @property
    def reads_kernels(self) -> bool:
        """True if a rule is about all kernels."""
        return self.uniform or self.no_hollow

    @property
    def is_about_sizes(self) -> bool:
        """True if all rules are about sizes, for which no file needs to be read."""
        others = (self.require, self.systems, self.forbid, self.registered, self.metadata, self.verify)
        return (self.max_size is not None or bool(self.max_growth)) and not (self.reads_kernels or any(others))

    @property
    def required(self) -> tuple[RequiredDevices, ...]:
        """Requirements for the code of each vendor's devices."""
        from fatpack.commands.check.model import RequiredDevices

        vendors = dict.fromkeys(item.device.vendor for item in self.require)
        return tuple(
            RequiredDevices(vendor, tuple(item.words for item in self.require if item.device.vendor == vendor))
            for vendor in vendors
        )

    def asks(self, vendors: Sequence[str]) -> bool:
        """Return whether a rule applies to a library with code for the devices of these vendors."""
        all_are_asked = not (self.require or self.systems) or self.forbid or self.reads_kernels or self.registered
        asked = [*(item.device.vendor for item in self.require), *(["apple"] if self.systems else [])]
        return bool(all_are_asked) or any(vendor in vendors for vendor in asked)


def has_value(value: object) -> bool:
    """Return whether an option or a setting is given. An empty text is given, and is refused where it is parsed."""
    return value is not None and value is not False and value != ()


def _expressions(texts: Iterable[str]) -> tuple[str, ...]:
    """Return regular expressions that can be compiled. Raises UsageError for others."""
    import re

    for text in texts:
        try:
            re.compile(text)
        except re.error as error:
            raise UsageError(f"{text[:80]!r} is no regular expression: {error}") from error
    return tuple(texts)


def _unread_kinds(names: Iterable[str]) -> tuple[str, ...]:
    """Return kinds of files that are not read and fail a check otherwise. Raises UsageError for other names."""
    from fatpack.scanner.unread_kinds import KINDS

    for name in names:
        if name not in KINDS or not KINDS[name].fails:
            kinds = ", ".join(kind.name for kind in KINDS.values() if kind.fails)
            problem = "fails no check" if name in KINDS else "is no kind of files that is not read"
            raise UsageError(f"{name[:80]!r} {problem}", hint=f"one of {kinds}")
    return tuple(dict.fromkeys(names))


def make_policy(
    given: Mapping[str, Any],
    config: PolicyConfig | None,
    *,
    deep: bool = False,
    names_kernels: bool = False,
    example: str = "",
) -> Policy:
    """Return the policy of arguments and of a file together; both the command line and the library call this.

    ``given`` are the arguments by their names in files (:data:`KEYS`); they override the settings of ``config``. Sizes
    are texts or numbers of bytes. Raises UsageError for a policy without rules, with ``example`` as its hint, and for
    settings that contradict each other; TargetError for an unknown device.
    """
    arguments = {name: value for name, value in given.items() if has_value(value)}
    values = {**(config.values if config is not None else {}), **arguments}
    if not any(has_value(values.get(name)) for name in RULES):
        some = cli_or_api("--require, --forbid or --max-size", "require, forbid or max_size")
        raise UsageError(f"no rules given: add {some}", hint=example or f"rules are {', '.join(RULES)}")
    if "per" in arguments and not values.get("require"):
        per, require = cli_or_api("--per", "per"), cli_or_api("--require", "require")
        raise UsageError(f"{per} goes with {require}")
    if values.get("strict") and not (values.get("registered") or values.get("verify")):
        strict, registered = cli_or_api("--strict", "strict"), cli_or_api("--registered", "registered")
        both = cli_or_api("--registered --strict", "registered=True, strict=True")
        raise UsageError(f"{strict} goes with {registered}", hint=f"give both: {both}")
    if values.get("allow-hollow") and not values.get("no-hollow"):
        allow, no = cli_or_api("--allow-hollow", "allow_hollow"), cli_or_api("--no-hollow", "no_hollow")
        raise UsageError(f"{allow} goes with {no}", hint=f"give both: {cli_or_api('--no-hollow', 'no_hollow=True')}")
    if ("max-growth" in values) != ("against" in values):
        names = cli_or_api("--max-growth and --against", "max_growth and against")
        example = cli_or_api("--max-growth 5% --against OLD", "max_growth='5%', against=OLD")
        raise UsageError(f"{names} go together", hint=example)
    if "max-growth" in values:
        parse_growth(values["max-growth"])
    if values.get("per", "unit") not in ("unit", "library"):
        raise UsageError(f"per is {values['per']!r}", hint="unit or library")
    size = values.get("max-size")
    return Policy(
        require=parse_requirements(values.get("require", ()), all_presets(config)),
        systems=parse_systems(values.get("require", ()), all_presets(config)),
        forbid=parse_forbidden(values.get("forbid", ())),
        max_size=parse_size_limit(size) if isinstance(size, str) else size,
        max_growth=values.get("max-growth", ""),
        against=values.get("against", ""),
        uniform=bool(values.get("uniform")),
        no_hollow=bool(values.get("no-hollow")),
        allow_hollow=_expressions(values.get("allow-hollow", ())),
        allow_unread=_unread_kinds(values.get("allow-unread", ())),
        registered=bool(values.get("registered")),
        strict=bool(values.get("strict")),
        metadata=bool(values.get("metadata")),
        per=values.get("per") or "unit",
        exclude=tuple(values.get("exclude", ())),
        deep=deep,
        names_kernels=names_kernels,
        verify=bool(values.get("verify")),
    )
