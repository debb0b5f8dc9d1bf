"""Files slimmed one after the other: named ones, and those of folders and patterns."""

from __future__ import annotations

import os

from fatpack.cli.editing import write_result
from fatpack.cli.messages import say
from fatpack.errors import FatpackError, UsageError
from fatpack.io.names import safe_word
from fatpack.io.sources.opening import open_source
from fatpack.io.sources.pieces import PiecesSource
from fatpack.ops.choose.address import find, parse_address, refuse_package
from fatpack.ops.slim.checking import check_of
from fatpack.ops.slim.outcome import Outcome, deflated_size
from fatpack.ops.slim.plan import plan
from fatpack.trees.walk import Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.cli.slimming.request import Request
    from fatpack.trees.walk import Place


def slim_all(request: Request) -> list[Outcome]:
    """Slim the files of a request, and return what became of each. What fails is an outcome, too."""
    found = []
    for file in request.files:
        if os.path.isdir(file):
            found += [_outcome(request, place.path, place.parts) for place in _inside(file)]
        else:
            found.append(_outcome(request, file, ()))
    return found


def _inside(folder: str) -> Iterator[Place]:
    """Yield the files of a folder that may hold device code. Raises UsageError if there are none."""
    is_met = False
    for place in Walk([folder], as_named=True, passes=True):
        is_met = True
        yield place
    if not is_met:
        raise UsageError(f"{folder} has no file that may hold device code")


def _outcome(request: Request, file: str, parts: tuple[str, ...]) -> Outcome:
    size = 0
    try:
        address = parse_address(file)
        with open_source(address.path) as source:
            whole = source.view()
            size = len(whole)
            refuse_package(whole)
            place = find(whole, address)
            made = plan(place.view, request.wishes)
            pieces = list(place.around(made.pieces))
            after = sum(map(len, pieces))
            deflated = (deflated_size([whole]), deflated_size(pieces)) if request.deflates else None
            done = Outcome(address.path, size, after, "", made, None, deflated)
            if request.dry_run:
                if made.is_changed:
                    check_of(made)(place.view, PiecesSource(list(made.pieces), address.path).view())
                return done
            if parts and not made.is_changed:  # of a folder only what changes is written
                return done
            output = _output(request, address.path, parts)
            if request.to.in_place and not made.is_changed:
                return done
            to = request.to if request.directory is None else request.to.replace(output=output)
            if request.directory is not None:
                os.makedirs(os.path.dirname(output) or os.curdir, exist_ok=True)
            check = check_of(made) if not place.archives else None
            write_result(whole, address.path, pieces, to, quiet=request.quiet, check=check)
            return done.replace(output=output)
    except BrokenPipeError:
        raise
    except (FatpackError, OSError) as error:
        say(f"fatpack: error: {_message(error)}")
        return Outcome(file, size, size, "", None, error)


def _message(error: FatpackError | OSError) -> str:
    from fatpack.report.problems import message

    return message(error)


def _output(request: Request, path: str, parts: tuple[str, ...]) -> str:
    if request.directory is not None:
        names = parts or (os.path.basename(path),)
        return os.path.join(request.directory, *(safe_word(name) if parts else name for name in names))
    return path if request.to.output is None else request.to.output
