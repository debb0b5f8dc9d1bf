"""Proofs of slimmed files: from the two files alone, as text, as JSON, and as certificates in files."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from fatpack import __version__, proof
from fatpack.command_line.messages import print_stderr
from fatpack.command_line.terminal import write_text
from fatpack.commands.slim import certificate, package_certificate
from fatpack.errors import HostError, UsageError
from fatpack.exit_codes import FINDINGS, FINE
from fatpack.io.atomic_write import check_target, write_file
from fatpack.io.open import open_source
from fatpack.scanner.context import detect_package
from fatpack.text.json import json_pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from fatpack.command_line.edit_io import EditDestination
    from fatpack.io.source import View


class ProofOutcome:
    """What is proved of two files: the certificate as plain data, and the lines for users."""

    def __init__(self, before: View, after: View) -> None:
        """Prove it. Raises Unsupported for files of which nothing is proved, and FormatError."""
        self.document: dict[str, Any]
        self.lines: Iterable[str]
        if detect_package(before) and detect_package(after):
            from fatpack.proof import packages

            package = packages.prove_package(before, after)
            self.is_proved = package.is_proved
            self.document = package_certificate.package_certificate_record(package, __version__)
            self.lines = package_certificate.render_package_certificate(package)
        else:
            verdict = proof.prove(before, after)
            self.is_proved = verdict.is_proved
            self.document, self.lines = (
                certificate.certificate_record(verdict, __version__),
                certificate.render_certificate(verdict),
            )

    def text(self) -> list[bytes]:
        """Return the certificate as a file."""
        return [*(part.encode() for part in json_pieces(self.document)), b"\n"]


def verify_files(
    files: Sequence[str], target: str | None, *, as_json: bool, force: bool, quiet: bool, output: str | None = None
) -> int:
    """Prove that the second of two files is the first with less device code; return the exit code: 1 if it is not.

    The certificate is written to ``target``, if there is one.
    """
    if len(files) != 2:
        raise UsageError("--verify takes two files", hint="fatpack slim --verify BEFORE AFTER")
    if output is not None:
        raise UsageError("--verify writes no file but --certificate FILE")
    with open_source(files[0]) as before, open_source(files[1]) as after:
        views = [before.view(), after.view()]
        if target is not None:
            check_target(target, force, views)
        proved = ProofOutcome(*views)
        if target is not None:  # before anything is printed: what fails is the only document of what asked for JSON
            write_file(target, proved.text(), force=force, inputs=views)
        if as_json:
            sys.stdout.write(b"".join(proved.text()).decode())
        elif not quiet:
            write_text(proved.lines)
        if target is not None:
            print_stderr(f"wrote {target}", quiet=quiet)
    return FINE if proved.is_proved else FINDINGS


class CertificateWriter:
    """The proof of a result before it takes its name, and the certificate of it, where one is asked for.

    Of a file that is changed in place the certificate is written before the exchange: the proof cannot be made again
    when the old file is gone.
    """

    def __init__(self, before: View, output: str, to: EditDestination, target: str | None, *, quiet: bool) -> None:
        """Take what is proved and where the certificate goes. Raises UsageError and ``FileExistsError`` for that."""
        if target is not None:
            if os.path.realpath(target) == os.path.realpath(output):
                raise UsageError(f"{target} is the output itself", hint="give the certificate a name of its own")
            check_target(target, to.force, [before])
        self._before, self._output, self._to, self._target = before, output, to, target
        self._quiet = quiet
        self._text: list[bytes] | None = None
        self._lines: list[str] = []

    def prove(self, after: View) -> None:
        """Prove a result. Raises HostError if it is not proved, Unsupported if it cannot be, and FormatError."""
        proved = ProofOutcome(self._before, after)
        self._text, self._lines = proved.text(), list(proved.lines)
        if not proved.is_proved:
            for line in self._lines:
                print_stderr(line)
            unproved = "with -o FILE" if self._to.in_place else "without --certificate"
            raise HostError(
                "the result is not proved to be the same but for device code, and was not written",
                hint=f"report this, with the file; {unproved} it is written unproved",
                chain=after.chain,
            )
        if self._to.in_place and self._target is not None:
            write_file(self._target, self._text, force=self._to.force, inputs=[self._before])

    def tell(self) -> None:
        """Say what was proved; write the certificate that is not written yet.

        Raises UsageError if the result went to where nothing can be read again.
        """
        if self._text is None:
            raise UsageError(f"{self._output} is no file, and a certificate is about one", hint="-o FILE or -d DIR")
        if self._target is not None and not self._to.in_place:
            write_file(self._target, self._text, force=self._to.force, inputs=[self._before])
        for line in self._lines:
            print_stderr(line, quiet=self._quiet)
        if self._target is not None:
            print_stderr(f"wrote {self._target}", quiet=self._quiet)

    def withdraw(self) -> None:
        """Remove the certificate of a file that was not exchanged after all."""
        if self._text is not None and self._to.in_place and self._target is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._target)
