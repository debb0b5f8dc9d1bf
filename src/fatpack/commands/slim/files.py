"""Files slimmed one after the other: named ones, and those of folders and patterns."""

from __future__ import annotations

import os

from fatpack.command_line.edit_io import write_result
from fatpack.command_line.messages import print_stderr
from fatpack.commands.slim.options import SlimOutcome, deflated_size
from fatpack.commands.slim.packages import is_package
from fatpack.commands.slim.plan import plan_slim
from fatpack.commands.slim.result import verifier_for
from fatpack.commands.slim.run import make_proof, slim_folder, slim_package
from fatpack.edit import editor
from fatpack.errors import FatpackError
from fatpack.io.open import open_source
from fatpack.io.pieces import PiecesSource
from fatpack.selectors.address import find_location, parse_address, refuse_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.command_line.edit_io import EditDestination
    from fatpack.commands.slim.proofs import CertificateWriter
    from fatpack.commands.slim.slimming_request import SlimRequest
    from fatpack.edit.editor import EditCheck
    from fatpack.io.source import Piece, View


def slim_all(request: SlimRequest) -> list[SlimOutcome]:
    """Slim the files of a request, and return what became of each. What fails is an outcome, too."""
    found: list[SlimOutcome] = []
    for file in request.files:
        try:
            found += slim_folder(request, file) if os.path.isdir(file) else _slim_file(request, file)
        except BrokenPipeError:
            raise
        except (FatpackError, OSError) as error:
            print_stderr(f"fatpack: error: {_message(error)}")
            found.append(SlimOutcome(file, 0, 0, "", None, error, is_told=True))
    return found


def _slim_file(request: SlimRequest, file: str) -> list[SlimOutcome]:
    address = parse_address(file)
    with open_source(address.path) as source:
        if not address.inside and is_package(source.view(), address.path):
            return slim_package(request, source.view(), address.path)
    return [_file_outcome(request, file)]


def _file_outcome(request: SlimRequest, file: str) -> SlimOutcome:
    size = 0
    try:
        address = parse_address(file)
        with open_source(address.path) as source:
            whole = source.view()
            size = len(whole)
            refuse_package(whole)
            place = find_location(whole, address)
            made = plan_slim(place.view, request.wishes)
            pieces = list(place.around(made.pieces))
            after = sum(map(len, pieces))
            deflated = (deflated_size([whole]), deflated_size(pieces)) if request.deflates else None
            done = SlimOutcome(address.path, size, after, "", made, None, deflated)
            if request.dry_run:
                if made.is_changed:
                    verifier_for(made)(place.view, PiecesSource(list(made.pieces), address.path).view())
                return done
            output = _output(request, address.path)
            if request.to.in_place and not made.is_changed and request.certificate is None:
                return done
            to = request.to if request.directory is None else request.to.replace(output=output)
            if request.directory is not None:
                os.makedirs(os.path.dirname(output) or os.curdir, exist_ok=True)
            check = verifier_for(made) if not place.archives else editor.verify_edited
            is_only = request.to.in_place and made.mode in ("shrink", "zero") and not place.archives
            proof = make_proof(request, whole, output, is_only=is_only)

            def proved(before: View, after: View) -> None:
                check(before, after)
                if proof is not None:
                    proof.prove(after)

            if request.to.in_place and not made.is_changed:
                proved(whole, whole)
                output = ""
            else:
                _exchange(whole, address.path, pieces, to, proof, quiet=request.quiet, check=proved)
            if proof is not None:
                proof.tell()
            return done.replace(output=output)
    except BrokenPipeError:
        raise
    except (FatpackError, OSError) as error:
        print_stderr(f"fatpack: error: {_message(error)}")
        return SlimOutcome(file, size, size, "", None, error, is_told=True)


def _exchange(
    host: View,
    path: str,
    pieces: list[Piece],
    to: EditDestination,
    proof: CertificateWriter | None,
    *,
    quiet: bool,
    check: EditCheck,
) -> None:
    """Write a result; take a certificate back that was written before the file got its name, if it never does."""
    try:
        write_result(host, path, pieces, to, quiet=quiet, check=check)
    except BaseException:
        if proof is not None:
            proof.withdraw()
        raise


def _message(error: FatpackError | OSError) -> str:
    from fatpack.exit_codes import error_message

    return error_message(error)


def _output(request: SlimRequest, path: str) -> str:
    if request.directory is not None:
        return os.path.join(request.directory, os.path.basename(path))
    return path if request.to.output is None else request.to.output
