"""Names of kernels in profiles, compared with those of a file so that no kernel that ran is missed.

A name means the kernels of the first form that finds any:

===========  ========================================================================================================
mangled      equal names; nvcc's hash of a unit, which every build has anew, does not count
demangled    equal names in normal form: without return type, parameters, spaces, ``const``, casts and suffixes of
             numbers; every demangler's words for unnamed namespaces and lambdas are one
pattern      ``*`` and ``?``, on the mangled and the demangled name; in lists of names alone
cut          a name that ends in ``...`` or within brackets: kernels whose names begin so
short        a name without template arguments: all kernels of this name. A name with arguments that are unknown here
             counts as its short name
===========  ========================================================================================================

Each is wider than the one before, and none is a guess by similarity. Sources: the names of libtorch_cuda.so by
c++filt, llvm-cxxfilt, torch.profiler and Nsight Systems.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from fatpack.demangling import demangle
from fatpack.errors import pluralize
from fatpack.images.kernel import strip_unit_suffix
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Literal, TypeAlias

    from fatpack.selectors.profiles import Profile

    NameForm: TypeAlias = Literal["mangled", "demangled", "pattern", "cut", "short"]

#: the forms, the narrowest first
FORMS: tuple[NameForm, ...] = ("mangled", "demangled", "pattern", "cut", "short")

_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}|_GLOBAL__N_\w*")
_CLONE = re.compile(r"\s*\[clone [^\]]*\]")
_QUALIFIERS = re.compile(r"\b(?:const|volatile)\b")
_CAST = re.compile(r"\((?:(?:unsigned|signed|long|int|short|char|bool)\s?)+\)(?=-?\d|true|false)")
_SUFFIX = re.compile(r"(?<![\w.])(\d+)(?:[uU]?[lL]{0,2})(?!\w)")

#: lambdas and unnamed types of GNU's and NVIDIA's demangler, and of LLVM's, which counts from nothing, 0, 1, …
_NUMBERED = re.compile(r"\{(?:lambda\([^{}]*\)|unnamed type)#(\d{1,9})\}")
_INSTANCE = re.compile(r"\[(?:lambda\([^\[\]]*\)|unnamed type) \(instance (\d{1,9})\)\]")
_QUOTED = re.compile(r"'(?:lambda|unnamed)(\d{0,9})'(?:\([^()']*\))?")
_SCOPE = re.compile(r"\([^()]*\)\s*::")

#: the return type of a function within a name, which LLVM's demangler alone writes
_RETURNS = re.compile(r"(^|[<,(])\s*void (?=[\w@$])")

#: LIMIT: nested lambdas and scopes that are replaced
_NESTED = 64

_OPEN, _CLOSE = "<([{", ">)]}"

_Kernels = frozenset

#: names of a kind that a text shows
_SHOWN = 3


def normal_form(name: str) -> str:
    """Return a demangled name in the form that all demanglers' names have in common."""
    text = _plain(name)
    if text.endswith(")"):
        text = text[: _opening(text)] or text
    return _after_return_type(text).replace(" ", "")


def _plain(name: str) -> str:
    text = _CLONE.sub("", _ANONYMOUS.sub("@", name.strip()))
    for _ in range(_NESTED):
        text, first = _NUMBERED.subn(r"$\1", text)
        text, second = _INSTANCE.subn(r"$\1", text)
        text, third = _QUOTED.subn(_of_llvm, text)
        if not first + second + third:
            break
    if "(" in text:
        text = _CAST.sub("", text)
    text = _SUFFIX.sub(r"\1", _QUALIFIERS.sub("", text))
    text = _RETURNS.sub(r"\1", re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", text)))
    for _ in range(_NESTED):
        text, count = _SCOPE.subn("::", text)
        if not count:
            break
    return re.sub(r"\boperator ", "operator", text).strip()


def _of_llvm(found: re.Match[str]) -> str:
    return f"${int(found[1]) + 2 if found[1] else 1}"


def _opening(text: str) -> int:
    """Return the position of the bracket that the last character closes; 0 if there is none."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        if text[at] == ")":
            depth += 1
        elif text[at] == "(":
            depth -= 1
            if not depth:
                return at
    return 0


def _after_return_type(text: str) -> str:
    """Return a name after its return type, which demanglers write for templates: what follows the last bare space."""
    depth = start = 0
    for found in re.finditer(r"[<>()\[\]{} ]", text):
        char = found[0]
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif not depth and not text[found.end() :].startswith(("<", "(", ">")):
            start = found.end()
    return text[start:] if not depth else text


def short_name(normal: str) -> str:
    """Return a name in normal form without all template arguments."""
    depth, parts, at = 0, [], 0
    for found in re.finditer(r"[<>]", normal):
        if found[0] == "<":
            if not depth:
                parts.append(normal[at : found.start()])
            depth += 1
        elif depth:
            depth -= 1
            at = found.end()
    if not depth:
        parts.append(normal[at:])
    return "".join(parts)


def beginning(name: str) -> str:
    """Return the part in normal form of a demangled name that was cut: up to its last whole part; "" if it is whole."""
    is_marked = name.endswith(("...", "…"))
    text = _plain(name.removesuffix("...").removesuffix("…"))
    waiting: list[tuple[str, int]] = []
    for found in re.finditer(r"[<>()\[\]{}']", text):
        char, at = found[0], found.start()
        if char in _OPEN or (char == "'" and not (waiting and waiting[-1][0] == "'")):
            waiting.append((char, at))
        elif waiting:
            waiting.pop()
    if not is_marked and not waiting:
        return ""
    inner = next((at for char, at in waiting if char != "<"), None)
    if inner is not None:  # within parameters, a cast or a lambda
        text = text[:inner]
    is_inside = any(char == "<" for char, at in waiting if inner is None or at < inner)
    normal = (text if is_inside else _after_return_type(text)).replace(" ", "")
    return re.sub(r"[^<>,:]*$", "", normal) if is_inside else normal


#: names in template arguments, and among them the plain types by which instances with one functor differ
_NAME = re.compile(r"[A-Za-z_$@][\w:$@]*")
_PLAIN = re.compile(
    r"(?:\w+::)*(?:(?:unsigned|signed|long|short|char|int)+|unsigned|signed|bool|char|short|int|long|float|double|u?int\d+_t|half2?|__half2?|bfloat16|Half|BFloat16"
    r"|__nv_bfloat16|complex|[a-zA-Z])"
)


def family(normal: str) -> str:
    """Return a name in normal form without numbers and plain types among its template arguments.

    Instances of one template with one functor have the same.
    """
    start = normal.find("<")
    if start < 0:
        return normal
    classes = [name for name in _NAME.findall(normal, start) if not _PLAIN.fullmatch(name)]
    return f"{short_name(normal)}<{','.join(classes)}>"


class KernelNameIndex:
    """The kernels of a file by the forms of their names; demangled on first need."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = _Kernels(names)
        self._units: dict[str, list[str]] | None = None
        self._normal: dict[str, list[str]] | None = None
        self._short: dict[str, list[str]] = {}
        self._sorted: list[str] = []
        self.demangled: Mapping[str, str] = {}

    def by_unit(self, name: str) -> Sequence[str]:
        """Return the kernels with a mangled name that is equal without the hash of its unit."""
        if self._units is None:
            self._units = {}
            for one in self.names:
                self._units.setdefault(strip_unit_suffix(one), []).append(one)
        return self._units.get(strip_unit_suffix(name), ())

    def by_normal(self, normal: str) -> Sequence[str]:
        """Return the kernels with a normal form. Raises Unsupported where no demangler is installed."""
        return self._read().get(normal, ())

    def by_beginning(self, start: str) -> list[str]:
        """Return the kernels whose normal form begins with a text."""
        forms = self._read()
        found: list[str] = []
        for at in range(bisect_left(self._sorted, start), len(self._sorted)):
            if not self._sorted[at].startswith(start):
                break
            found += forms[self._sorted[at]]
        return found

    def by_short(self, short: str) -> Sequence[str]:
        """Return the kernels with a name without template arguments, with or without its namespaces."""
        self._read()
        return self._short.get(short, ())

    def by_pattern(self, pattern: str) -> list[str]:
        """Return the kernels whose mangled or demangled name matches a pattern of ``*`` and ``?``."""
        from fnmatch import translate

        matches = re.compile(translate(pattern.replace("[", "[[]"))).match
        self._read()
        return [name for name in self.names if matches(name) or matches(self.demangled.get(name, name))]

    def siblings(self, kernels: Iterable[str]) -> frozenset[str]:
        """Return the kernels of the families of some kernels. Raises Unsupported where no demangler is installed."""
        families: dict[str, list[str]] = {}
        for form, names in self._read().items():
            families.setdefault(family(form), []).extend(names)
        wanted = {family(normal_form(self.demangled.get(name, name))) for name in kernels}
        return _Kernels(name for one in wanted for name in families.get(one, ()))

    def _read(self) -> dict[str, list[str]]:
        if self._normal is None:
            self.demangled = demangle(self.names)
            forms: dict[str, list[str]] = {}
            for name in self.names:
                forms.setdefault(normal_form(self.demangled.get(name, name)), []).append(name)
            for form, found in forms.items():
                short = short_name(form)
                for key in {short, short.rpartition("::")[2]}:
                    self._short.setdefault(key, []).extend(found)
            self._sorted = sorted(forms)
            self._normal = forms
        return self._normal


class NameMatches(Record):
    """The kernels of a file that some names mean, and for each name that means any the form by which.

    ``widened`` are names with template arguments that are unknown here, which count as their short names.
    """

    kernels: frozenset[str]
    forms: Mapping[str, NameForm]
    widened: tuple[str, ...]


def match_names(profiles: Sequence[Profile], index: KernelNameIndex) -> NameMatches:
    """Return the kernels of a file that profiles name. Raises Unsupported where a demangler is needed and missing."""
    kernels: set[str] = set()
    forms: dict[str, NameForm] = {}
    widened: dict[str, None] = {}
    names = {name: None for profile in profiles for name in profile.names}
    patterns = {name for profile in profiles for name in profile.patterns}
    left = []
    for name in names:
        found: Sequence[str] = [name] if name in index.names else index.by_unit(name)
        if found:
            kernels.update(found)
            forms[name] = "mangled"
        elif index.names:
            left.append(name)
    demangled = demangle(left) if left else {}
    for name in left:
        form, found, is_widened = _match(demangled.get(name, name), name in patterns, index)
        if found:
            kernels.update(found)
            forms[name] = form
            if is_widened:
                widened[name] = None
    return NameMatches(_Kernels(kernels), forms, tuple(widened))


def _match(name: str, is_pattern: bool, index: KernelNameIndex) -> tuple[NameForm, Sequence[str], bool]:
    start = beginning(name)
    normal = normal_form(name)
    if not start and (found := index.by_normal(normal)):
        return "demangled", found, False
    if is_pattern and (found := index.by_pattern(name)):
        return "pattern", found, False
    if start and (found := index.by_beginning(start)):
        return "cut", found, False
    short = short_name(start or normal)
    if found := index.by_short(short):
        return "short", found, "<" in normal
    # Cut at a width, where no bracket was open
    return "cut", index.by_beginning(normal) if normal and "<" not in normal else (), False


# Words and counts about names that were matched in several files.


def best_forms(files: Iterable[Mapping[str, NameForm]]) -> dict[str, NameForm]:
    """Return the names that mean kernels of any file, each with the narrowest form by which it does."""
    best: dict[str, NameForm] = {}
    for forms in files:
        for name, form in forms.items():
            if name not in best or FORMS.index(form) < FORMS.index(best[name]):
                best[name] = form
    return best


def form_counts(forms: Mapping[str, NameForm]) -> dict[str, int]:
    """Return how many names were matched by each form."""
    return {form: sum(one == form for one in forms.values()) for form in FORMS}


def name_lines(profiles: Iterable[Profile], forms: Mapping[str, NameForm], widened: Sequence[str]) -> Iterator[str]:
    """Yield how many names of profiles were matched by which form, those that match nothing, and those widened."""
    names = {name: None for profile in profiles for name in profile.names}
    counts = [f"{count} {form}" for form, count in form_counts(forms).items() if count]
    unmatched = [name for name in names if name not in forms]
    yield f"{pluralize(len(names), 'kernel name')}: {', '.join([*counts, f'{len(unmatched)} unmatched'])}"
    for title, found in (
        ("unmatched: of other libraries, or compiled at run time", unmatched),
        ("with unknown template arguments, taken for all instances", widened),
    ):
        if found:
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            yield f"{pluralize(len(found), 'name')} {title}: {'; '.join(map(_cut, found[:_SHOWN]))}{more}"


def _cut(name: str, width: int = 80) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"
