"""The symbols that a module defines itself: a second look at it, for those who want all of them."""

from __future__ import annotations

from fatpack.formats.cir.modules.contents import Tracker
from fatpack.formats.cir.text.body import region_end
from fatpack.formats.cir.text.window import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.formats.cir.modules.stored import Contents, Module


def symbols(module: Module) -> tuple[str, ...]:
    """Return the symbols of the operations directly in a module, in order."""
    return _contents(module).symbols


def functions(module: Module) -> tuple[str, ...]:
    """Return the symbols of the functions with a body directly in a module, in order."""
    return _contents(module).functions


def _contents(module: Module) -> Contents:
    text = Text(module.text)
    tracker = Tracker(text, symbols=True)
    tracker.finish(region_end(text, module.body[0], tracker))
    return tracker.contents()
