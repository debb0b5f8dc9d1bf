"""Which module of a file is the container, in which form, and what role each module in it has."""

from __future__ import annotations

from functools import lru_cache

from fatpack.formats.cir.expressions import Expression
from fatpack.formats.cir.text.header import LONGEST, read
from fatpack.formats.cir.text.strings import unescaped
from fatpack.formats.cir.text.window import SIGIL_ID, Text
from fatpack.formats.cir.words import CONTAINER, KIND, PROTOTYPE, PROTOTYPE_KIND, ROLES
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.formats.cir.modules.stored import Module, Outline
    from fatpack.formats.cir.text.header import Attr

_KIND = Expression(rb'#cir\.offload<[ \t\r\n]*(\w+)[ \t\r\n]*>|#cir\.offload_kind<[ \t\r\n]*(\w+)[ \t\r\n]*>|"(\w*)"')
_STYLES = ("", "enum", "draft", "string")


class Role(Record):
    """What a module says about itself: ``kind`` as spelled, and its ``style``: enum, draft, string, name, or ""."""

    kind: str
    style: str


def containers(outline: Outline) -> list[tuple[Module, str]]:
    """Return the containers of a file, each with its form; the file's own module, or what lies directly in it.

    The upstream tool takes the file's module if that is one, and looks at the modules directly in it otherwise.
    """
    is_module = len(outline.modules) == 1 and not outline.others and not outline.modules[0].is_op
    found: list[tuple[Module, str]] = []
    for module in outline.modules:
        form = _form(module)
        if form:
            found.append((module, form if is_module or form.startswith("op") else "nested"))
        elif is_module:
            for inner in module.modules:
                form = _form(inner)
                if form:
                    found.append((inner, form if form.startswith("op") else "nested"))
    return found


def _form(module: Module) -> str:
    """Return the form of a container by its marker and the roles of its modules; "" for no container."""
    if module.is_op:
        styles = {role(inner).style for inner in module.modules}
        return "op" if "draft" in styles or "enum" in styles else "op-string"
    if module.attr(CONTAINER):
        return "attribute"
    return "prototype" if module.attr(PROTOTYPE) else ""


def role(module: Module, outline: Outline | None = None) -> Role:
    """Return the role of a module in a container; ``outline`` is where an alias in the attribute is looked up."""
    attr = module.attr(KIND) or module.attr(PROTOTYPE_KIND)
    if attr:
        return parse_kind(resolved(module, attr, outline))
    return parse_kind(None, (module.name or b"").decode("utf-8", "backslashreplace"))


@lru_cache(maxsize=256)
def parse_kind(value: bytes | None, name: str = "") -> Role:
    """Return the role that the text of an attribute says; without one, that which the name of the module says."""
    if value is None:
        return Role(name, "name") if name in ROLES else Role("", "")
    found = _KIND.fullmatch(value.strip())
    if found is None or found.lastindex is None:
        return Role(value[:60].decode("utf-8", "backslashreplace"), "other")
    return Role(found[found.lastindex].decode("utf-8", "backslashreplace"), _STYLES[found.lastindex])


def string(module: Module, name: bytes, outline: Outline | None = None) -> str | None:
    """Return the value of an attribute that is a string; None if there is none, or something else."""
    attr = module.attr(name)
    value = resolved(module, attr, outline).strip() if attr else b""
    if len(value) < 2 or len(value) == LONGEST or not value.startswith(b'"') or not value.endswith(b'"'):
        return None
    return unescaped(value[1:-1]).decode("utf-8", "surrogateescape")


def resolved(module: Module, attr: Attr, outline: Outline | None) -> bytes:
    """Return the text of a value; an alias is looked up, and aliases of aliases."""
    value = attr.literal if attr.literal is not None else read(Text(module.text), attr.value)
    if outline is None or value[:1] != b"#" or b"." in value or not SIGIL_ID.fullmatch(value):
        return value
    found = outline.aliases.value(value)
    return value if found is None else found
