"""The rules of a container, in the words of the CIR dialect's verifier and of cir-offload-merge.

Source of the sentences: ``CIRDialect::verifyOperationAttribute`` in clang/lib/CIR/Dialect/IR/CIRDialect.cpp
(llvm-project#206576) and clang/tools/cir-offload-merge/cir-offload-merge.cpp of its author. Upstream stops at the first
broken rule; all of them are listed here.
"""

from __future__ import annotations

from functools import lru_cache

from fatpack import limits
from fatpack.errors import FormatError, cli_or_api
from fatpack.formats.cir import bundle_id
from fatpack.formats.cir.bundle_id import KINDS, fits
from fatpack.formats.cir.text.lexer import BLANK_EXPRESSION, STRING
from fatpack.formats.cir.text.region import OPERATION
from fatpack.formats.cir.vocabulary import CONTAINER, KIND, MODULE_NAMES, ROLES, LazyExpression
from fatpack.record import Record
from fatpack.targets.triple import as_llvm22, triple_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.formats.cir.bundle_id import CirBundleId
    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.formats.cir.modules.attributes import ModuleFacts
    from fatpack.formats.cir.modules.model import FileOutline, TextModule
    from fatpack.io.source import View


#: Codes of breaches that make a container unusable; the others are informative.
_FATAL = frozenset(("FP1502", "FP1504", "FP1506", "FP1515"))


class ContainerFacts(Record):
    """The facts of a container that the rules check.

    ``wrong_marker`` is the position of a marker that is not a unit attribute, ``first`` of the first operation of any
    kind, ``stray`` of the first that is not a module.
    """

    start: int
    is_op: bool
    form: str
    wrong_marker: int | None
    first: int | None
    stray: int | None
    modules: tuple[ModuleFacts, ...]


class RuleBreach(Record):
    """A broken rule: the finding's code, position, message, and advice."""

    code: str
    at: int
    text: str
    hint: str = ""

    @property
    def is_fatal(self) -> bool:
        """True if the container cannot be used because of it."""
        return self.code in _FATAL


def check_rules(facts: ContainerFacts) -> Iterator[RuleBreach]:
    """Yield the broken rules of a container: its structure first, then names and bundle IDs."""
    yield from _structure(facts)
    yield from _names(facts.modules)
    yield from _ids(facts.modules)


def _structure(facts: ContainerFacts) -> Iterator[RuleBreach]:
    prefix = "'cir.offload.container' op " if facts.is_op else "'builtin.module' op "
    modules = facts.modules
    if facts.wrong_marker is not None:
        yield RuleBreach("FP1502", facts.wrong_marker, "expects 'cir.offload.container' to be a unit attribute")
    if not modules or facts.first != modules[0].start:
        at = facts.start if facts.first is None else facts.first
        yield RuleBreach("FP1502", at, f"{prefix}expects host module as the first nested op")
    found = [breach for number, module in enumerate(modules) for breach in _role(module, number, facts.form)]
    if modules and facts.stray is not None and facts.stray > modules[0].start:
        sentence = "nested module operations" if facts.form == "op-string" else "nested builtin.module ops"
        found.append(RuleBreach("FP1502", facts.stray, f"{prefix}expects only {sentence}"))
    if len(modules) == 1 and not found:
        found.append(RuleBreach("FP1502", facts.start, f"{prefix}expects at least one device module"))
    yield from sorted(found, key=lambda breach: breach.at)


def _role(module: ModuleFacts, number: int, form: str) -> Iterator[RuleBreach]:
    wanted = ROLES[min(number, 1)]
    own = f"module {number}{module_words(module)}: 'builtin.module' op "
    if module.style not in _styles(form):
        what = "string attribute" if form == "op-string" else "offload kind attribute"
        code, hint = ("FP1515", "converting the container rewrites it") if module.kind == wanted else ("FP1502", "")
        yield RuleBreach(code, module.start, f"{own}expects 'cir.offload.kind' {what}", hint)
    elif module.kind != wanted:
        other = f", found {module.kind!r}" if module.kind not in ROLES else ""
        yield RuleBreach("FP1502", module.start, f"{own}expects 'cir.offload.kind' value '{wanted}'{other}")


def _styles(form: str) -> tuple[str, ...]:
    """Return the styles of kinds that a form has; in the very first prototype names serve as kinds."""
    if form in ("op-string", "prototype"):
        return ("string", "name")
    return ("draft",) if form == "op" else ("enum",)


def module_words(module: ModuleFacts) -> str:
    """Return the name of a module in words, "" for none."""
    return f" @{module.name.decode('utf-8', 'backslashreplace')}" if module.name is not None else ""


def _names(modules: Sequence[ModuleFacts]) -> Iterator[RuleBreach]:
    names: set[bytes] = set()
    for module in modules:
        if module.name is not None and module.name in names:
            name = module.name.decode("utf-8", "backslashreplace")
            hint = "every module of a container needs a name of its own"
            yield RuleBreach("FP1506", module.start, f"redefinition of symbol named '{name}'", hint)
        names.add(module.name or b"")


def _ids(modules: Sequence[ModuleFacts]) -> Iterator[RuleBreach]:
    without = [module for module in modules if module.id is None]
    if without:
        text = f"nested module{module_words(without[0])} is missing 'cir.offload.bundle_id'"
        more = len(without) - 1
        text += f", and so {'is' if more == 1 else 'are'} {more} more" if more else ""
        convert = cli_or_api("fatpack convert --format=cir --cir-ids=ID,ID,...", "CirOptions(ids=[…])")
        advice = f"it cannot be split off by its target; give IDs: {convert}"
        yield RuleBreach("FP1503", without[0].start, text, advice)
    ids: set[str] = set()
    for module in modules:
        if module.id is None:
            continue
        shown = module.id.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        if module.id in ids:
            hint = "every module needs an ID of its own, or they cannot be distinguished"
            yield RuleBreach("FP1504", module.start, f"duplicate module bundle ID '{shown}'", hint)
        ids.add(module.id)
        wrong = bundle_id.refusal_reason(module.id)
        if wrong:
            yield RuleBreach("FP1505", module.start, f"invalid module bundle ID '{shown}': {wrong}")
        elif module.parts is not None and module.parts.is_misplaced:
            text = f"the processor of '{shown}' is in place of the environment"
            yield RuleBreach("FP1511", module.start, text, "cir-offload-merge sees none; write two dashes before it")


# Statements of modules compared with their container's statements about them, and with each other.
#
# Neither the CIR dialect's verifier nor cir-offload-merge compares these; the programs that come out do not run. The
# flags are those of ``cir.lowering_lang_options`` (llvm-project#224757): HIP sets ``cuda`` too.

_CODE = "FP1516"
#: Advice for a module that was packed as something else.
CHECK_IDS = "check which file was packed with which bundle ID"

#: programming model → the flag of a compilation for a device
_DEVICE_FLAGS = {"cuda": "cuda_is_device", "hip": "cuda_is_device", "openmp": "openmp_is_target_device"}


def module_contradictions(modules: Sequence[ModuleFacts]) -> Iterator[RuleBreach]:
    """Yield the modules' contradictions to their roles and IDs, and to each other."""
    for number, module in enumerate(modules):
        role = module.kind if module.kind in ROLES else ROLES[min(number, 1)]
        for text in role_contradictions(module, role, module.parts):
            yield RuleBreach(_CODE, module.start, f"module {number}{module_words(module)}: {text}", CHECK_IDS)
    yield from container_contradictions(modules)


def role_contradictions(module: ModuleFacts, role: str, id: CirBundleId | None) -> Iterator[str]:
    """Yield a module's contradictions to the role and the bundle ID that a container gives it."""
    if module.kind in ROLES and module.kind != role:
        yield f"it is stored as {role}, and states that it is {_called(module.kind)}"
    if id is not None:
        yield from _of_id(module, role, id)
    is_device = _is_device(module)
    if is_device is not None and is_device != (role == "device"):
        yield f"it is stored as {role}, and was compiled for {'a device' if is_device else 'the host'}"


def _of_id(module: ModuleFacts, role: str, target: CirBundleId) -> Iterator[str]:
    id = target.spelling
    if (target.kind == "host") != (role == "host"):
        yield f"it is stored as {role}, with the bundle ID {id!r}"
    if module.id is not None and module.id != id and not fits(module.id, id) and not fits(id, module.id):
        yield f"it is stored as {id!r}, and its file as {module.id!r}"
    if module.triple and not _agree(module.triple, target.triple):
        yield f"it is stored as {id!r}, and its triple is {module.triple!r}"
    model = KINDS.get(target.kind)
    if model in ("cuda", "hip") and module.model in ("cuda", "hip") and module.model != model:
        yield f"it is stored as {id!r}, and was compiled as {module.model.upper()}"


def container_contradictions(modules: Sequence[ModuleFacts]) -> Iterator[RuleBreach]:
    """Yield the differing statements of a container's modules that must be the same for all of them."""
    stated = [(number, module, module.options["gpu_rdc"]) for number, module in enumerate(modules) if _has_rdc(module)]
    for number, module, is_relocatable in stated[1:]:
        if is_relocatable != stated[0][2]:
            first = f"module {stated[0][0]}{module_words(stated[0][1])}"
            how = "with" if is_relocatable else "without"
            text = f"module {number}{module_words(module)}: it was compiled {how} -fgpu-rdc, unlike {first}"
            yield RuleBreach(_CODE, module.start, text, "compile the host and all devices alike")


def _has_rdc(module: ModuleFacts) -> bool:
    return module.model in ("cuda", "hip") and "gpu_rdc" in module.options


def _is_device(module: ModuleFacts) -> bool | None:
    """Return whether a module was compiled for a device; None if it does not say."""
    return module.options.get(_DEVICE_FLAGS.get(module.model, ""))


@lru_cache(maxsize=64)
def _agree(first: str, second: str) -> bool:
    """Return whether two triples can mean the same; an unspecified part matches any."""
    pairs = zip(*(triple_identity(as_llvm22(triple, "")[0]) for triple in (first, second)), strict=False)
    return all(one == other or not one or not other for one, other in pairs)


def _called(kind: str) -> str:
    return "the host" if kind == "host" else "a device"


# Attributes of containers on operations other than modules, which the verifier of the CIR dialect refuses.

#: Common start of both words: one search finds them.
_PREFIX = b"cir.offload."

#: LIMIT: occurrences of the words that are examined, bytes of a line before one, and bytes before all of them.
_MOST = 10_000
_LINE = 1 << 16
_BUDGET = 1 << 24
#: LIMIT: lines before a word that are searched for the operation if its dictionary spans several lines, and their
#: bytes.
_LINES = 64
_NEAR = 1 << 13

#: A word and the text that can follow the name of an attribute; no match is longer.
_WORD = LazyExpression(rb"(cir\.offload\.container|cir\.offload\.kind)[ \t\r\n\0]{0,60}[=,}]")
_LONGEST = 128

_BRACES = LazyExpression(rb"[{}]")
_STRING = LazyExpression(STRING)
_NAME = LazyExpression(rb'"[\w$.]+"')


def misplaced_in_text(outline: FileOutline) -> Iterator[RuleBreach]:
    """Yield a breach for every such attribute on an operation that is, from its lines, known not to be a module.

    If a limit ends the search, the last one says so.
    """
    view = outline.text
    listed = set(_keys(outline.modules))
    budget = _BUDGET
    for number, (at, word) in enumerate((at, word) for at, word in _find_attribute_words(view) if at not in listed):
        before = _before(view, at)
        budget -= len(before)
        if number == _MOST or budget < 0:
            text = f"only {number} places of 'cir.offload' attributes are checked, and more follow"
            yield RuleBreach("FP1005", at, text)
            return
        if _is_attribute(before):
            yield RuleBreach("FP1502", at, f"expects '{word.decode()}' attribute to be attached to 'builtin.module'")


def _find_attribute_words(view: View) -> Iterator[tuple[int, bytes]]:
    """Yield the positions of both words that are followed by text that can follow the name of an attribute."""
    at = max(view.find(_PREFIX), 0)
    while at < len(view):
        block = view.head(at, limits.CHUNK)
        is_last = at + len(block) >= len(view)
        end = len(block) if is_last else len(block) - _LONGEST
        for found in _WORD.finditer(block):
            if found.start() < end:
                yield at + found.start(), found[1]
        at += end


def _keys(modules: Iterable[TextModule]) -> Iterator[int]:
    for module in modules:
        for attr in module.attrs:
            yield attr.key[0]
        yield from _keys(module.modules)


def _before(view: View, at: int) -> bytes:
    """Return the line before a position, and if it is short those before it."""
    before = view.read(max(at - _LINE, 0), min(at, _LINE))
    start = before.rfind(b"\n") + 1
    return before[start:] if len(before) - start > _NEAR else before[-_NEAR:]


def _is_attribute(before: bytes) -> bool:
    """Return whether the name of an attribute, of an operation other than a module, can follow a text."""
    head = _head(before)
    if head[-1:] not in (b"{", b",") or head.count(b'"') % 2:
        return False
    found = OPERATION.match(head)
    if found is None or not found.lastindex or not _is_own(head):
        return False
    name = found[found.lastindex]
    return b"." in name and name not in MODULE_NAMES and name != CONTAINER


def _head(before: bytes) -> bytes:
    """Return the operation that ends with a text, from its first line on: without strings and comments."""
    lines = before.rsplit(b"\n", _LINES)[-_LINES:]
    head = _plain(lines.pop())
    while lines and (not head or b"{" not in head):
        line = _plain(lines.pop())
        if line and line[-1:] not in (b"{", b","):
            break
        head = (line + b" " + head).strip(BLANK_EXPRESSION)
    return head


def _plain(line: bytes) -> bytes:
    """Return a line without blanks around it and comments after it; only strings that are names of operations stay."""
    shown = _STRING.sub(lambda found: found[0] if _NAME.fullmatch(found[0]) else b'""', line)
    return shown.partition(b"//")[0].strip(BLANK_EXPRESSION)


def _is_own(head: bytes) -> bool:
    """Return whether the dictionary that is open at the end is that of the operation, and not a value in it."""
    depth = 0
    for brace in reversed(list(_BRACES.finditer(head))):
        depth += 1 if brace[0] == b"}" else -1
        if depth < 0:
            return head[: brace.start()].rstrip(BLANK_EXPRESSION)[-1:] not in b"=[,({:"
    return False


# Attributes of containers on operations other than modules in bytecode, which the CIR dialect's verifier refuses.


def misplaced_in_bytecode(file: BytecodeFile, root: OperationNode) -> Iterator[RuleBreach]:
    """Yield a breach for every such attribute on an operation directly in a listed module."""
    yield from _in(file, root, {})


def _in(file: BytecodeFile, outer: OperationNode, cached: dict[int, tuple[bytes, ...]]) -> Iterator[RuleBreach]:
    for start in outer.attributed:
        head = outer.head(file, start)
        if head.attributes is None or file.names[head.name] in (*MODULE_NAMES, CONTAINER):
            continue
        if head.attributes not in cached:
            cached[head.attributes] = _misplaced_in_bytecode_message(file, head.attributes)
        for word in cached[head.attributes]:
            yield RuleBreach("FP1502", start, f"expects '{word.decode()}' attribute to be attached to 'builtin.module'")
    for inner in outer.modules:
        yield from _in(file, inner, cached)


def _misplaced_in_bytecode_message(file: BytecodeFile, number: int) -> tuple[bytes, ...]:
    try:
        attrs = file.attribute(number).dictionary()
    except FormatError:
        return ()  # nothing else depends on this damaged part
    return tuple(word for word in (CONTAINER, KIND) if word in attrs)
