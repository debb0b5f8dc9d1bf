"""Which module of a file is the container, in which form, and what role each module in it has."""

from __future__ import annotations

from functools import lru_cache

from fatpack.formats.cir.expressions import LazyExpression
from fatpack.formats.cir.text.header import LONGEST, read_short_text
from fatpack.formats.cir.text.lexer import SIGIL_ID, Lexer
from fatpack.formats.cir.text.strings import unescape
from fatpack.formats.cir.vocabulary import CONTAINER, KIND, PROTOTYPE, PROTOTYPE_KIND, ROLES
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.formats.cir.modules.model import FileOutline, TextModule
    from fatpack.formats.cir.text.header import TextAttribute

_KIND = LazyExpression(
    rb'#cir\.offload<[ \t\r\n]*(\w+)[ \t\r\n]*>|#cir\.offload_kind<[ \t\r\n]*(\w+)[ \t\r\n]*>|"(\w*)"'
)
_STYLES = ("", "enum", "draft", "string")


class ModuleRole(Record):
    """What a module says about itself: ``kind`` as spelled, and its ``style``: enum, draft, string, name, or ""."""

    kind: str
    style: str


def find_containers(outline: FileOutline) -> list[tuple[TextModule, str]]:
    """Return the containers of a file, each with its form; the file's own module, or what lies directly in it.

    The upstream tool takes the file's module if that is one, and looks at the modules directly in it otherwise.
    """
    is_module = len(outline.modules) == 1 and not outline.others and not outline.modules[0].is_op
    found: list[tuple[TextModule, str]] = []
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


def _form(module: TextModule) -> str:
    """Return the form of a container by its marker and the roles of its modules; "" for no container."""
    if module.is_op:
        styles = {read_role(inner).style for inner in module.modules}
        return "op" if "draft" in styles or "enum" in styles else "op-string"
    if module.attr(CONTAINER):
        return "attribute"
    return "prototype" if module.attr(PROTOTYPE) else ""


def read_role(module: TextModule, outline: FileOutline | None = None) -> ModuleRole:
    """Return the role of a module in a container; ``outline`` is where an alias in the attribute is looked up."""
    attr = module.attr(KIND) or module.attr(PROTOTYPE_KIND)
    if attr:
        return parse_kind(resolve_aliases(module, attr, outline))
    return parse_kind(None, (module.name or b"").decode("utf-8", "backslashreplace"))


@lru_cache(maxsize=256)
def parse_kind(value: bytes | None, name: str = "") -> ModuleRole:
    """Return the role that the text of an attribute says; without one, that which the name of the module says."""
    if value is None:
        return ModuleRole(name, "name") if name in ROLES else ModuleRole("", "")
    found = _KIND.fullmatch(value.strip())
    if found is None or found.lastindex is None:
        return ModuleRole(value[:60].decode("utf-8", "backslashreplace"), "other")
    return ModuleRole(found[found.lastindex].decode("utf-8", "backslashreplace"), _STYLES[found.lastindex])


def string_attribute(module: TextModule, name: bytes, outline: FileOutline | None = None) -> str | None:
    """Return the value of an attribute that is a string; None if there is none, or something else."""
    attr = module.attr(name)
    value = resolve_aliases(module, attr, outline).strip() if attr else b""
    if len(value) < 2 or len(value) == LONGEST or not value.startswith(b'"') or not value.endswith(b'"'):
        return None
    return unescape(value[1:-1]).decode("utf-8", "surrogateescape")


def resolve_aliases(module: TextModule, attr: TextAttribute, outline: FileOutline | None) -> bytes:
    """Return the text of a value; an alias is looked up, and aliases of aliases."""
    value = attr.literal if attr.literal is not None else read_short_text(Lexer(module.text), attr.value)
    if outline is None or value[:1] != b"#" or b"." in value or not SIGIL_ID.fullmatch(value):
        return value
    found = outline.aliases.value(value)
    return value if found is None else found
