"""The symbols that a module defines itself: a second look at it, for those who want all of them."""

from __future__ import annotations

from fatpack.formats.cir.modules.contents import ContentsTracker
from fatpack.formats.cir.text.lexer import Lexer
from fatpack.formats.cir.text.region import find_region_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.formats.cir.modules.model import ModuleContents, TextModule


def list_symbols(module: TextModule) -> tuple[str, ...]:
    """Return the symbols of the operations directly in a module, in order."""
    return _contents(module).symbols


def list_functions(module: TextModule) -> tuple[str, ...]:
    """Return the symbols of the functions with a body directly in a module, in order."""
    return _contents(module).functions


def _contents(module: TextModule) -> ModuleContents:
    text = Lexer(module.text)
    tracker = ContentsTracker(text, symbols=True)
    tracker.finish(find_region_end(text, module.body[0], tracker))
    return tracker.contents()
