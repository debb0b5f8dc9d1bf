"""What a user of ``fatpack slim`` asks for, checked before a file is opened."""

from __future__ import annotations

import os

from fatpack.command_line.edit_io import check_output
from fatpack.command_line.options import allow_any_output, check_output_name
from fatpack.commands.slim.naming import NameChange, needs_new_name
from fatpack.commands.slim.wishes import SlimOptions
from fatpack.errors import UsageError
from fatpack.record import Record
from fatpack.selectors.address import parse_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from fatpack.command_line.edit_io import EditDestination


#: what says something of a proof of two files; all other options ask for a file to be made
_OF_PROOFS = ("as_json", "certificate", "force", "max_inflated", "max_output", "output", "quiet", "verify")


class SlimRequest(Record):
    """The files, what is wished, and where the results go: to one place, or into the folder ``directory``.

    ``deflates`` asks for sizes as in a wheel, ``certificate`` is the file that the proof is written to. ``naming`` says
    how a package that changes is called, ``sbom`` is the file that lists what device code it holds.
    """

    files: tuple[str, ...]
    wishes: SlimOptions
    to: EditDestination
    directory: str | None = None
    dry_run: bool = False
    deflates: bool = False
    certificate: str | None = None
    as_json: bool = False
    quiet: bool = False
    naming: NameChange = NameChange()
    sbom: str | None = None

    def check(self) -> None:
        """Raise UsageError unless the options say what to do and where to write."""
        wishes = self.wishes
        if not self.files:
            raise UsageError("no file is given", hint="fatpack slim FILE --for DEVICE -o OUTPUT")
        if not wishes.drops and wishes.recompress is None:
            raise UsageError(
                "nothing says what is to go", hint="--for DEVICE, --drop PATTERN, --keep PATTERN, or --recompress"
            )
        if wishes.level is not None and wishes.recompress is None:
            raise UsageError("--level goes with --recompress")
        if self.sbom is not None and len(self.files) > 1:
            raise UsageError("an SBOM is about one package", hint="slim one at a time")
        self._check_effects()
        several = len(self.files) > 1 or os.path.isdir(self.files[0])
        if self.dry_run:
            return
        if self.directory is not None:
            allow_any_output(self.to.force)
            check_output_name(self.directory)
            if self.to.output is not None or self.to.in_place:
                raise UsageError("-d, -o and --in-place exclude each other")
        elif several and not self.to.in_place:
            raise UsageError("several files do not go into one", hint="-d DIR for all of them, or --in-place")
        else:
            check_output(self.files[0], self.to)
        if self.certificate is not None and several:
            raise UsageError("a certificate is about one file", hint="slim one file at a time")
        if self.certificate is not None and self.to.output == "-":
            raise UsageError("a certificate is about two files", hint="write a copy with -o or -d")

    def _check_effects(self) -> None:
        """Raise UsageError for an option that would do nothing, and for files that would be written over each other."""
        folders = [file for file in self.files if os.path.isdir(file)]
        packages = [file for file in self.files if needs_new_name(file) and file not in folders]
        if self.naming != NameChange() and not packages:
            hint = "leave it away: other files keep their names"
            raise UsageError(
                "--build-tag and --local-version name wheels and conda packages, and none is given", hint=hint
            )
        if self.sbom is not None and not packages:
            hint = "fatpack inspect --json lists the device code of any file"
            raise UsageError("--sbom is about a wheel or conda package, and none is given", hint=hint)
        if self.deflates and folders:
            hint = "name the files in it, or slim the wheel, where these sizes are always told"
            raise UsageError(f"--deflated is about files, and {folders[0]} is a folder", hint=hint)
        for option, value in (("--sbom", self.sbom), ("--certificate", self.certificate)):
            if self.dry_run and value is not None:
                raise UsageError(f"{option} writes a file, and --dry-run writes none")
        seen: dict[str, str] = {}
        for file in self.files if self.directory is not None and len(self.files) > 1 else ():
            name = os.path.basename(parse_address(file).path)
            if file not in folders and seen.setdefault(name, file) is not file:
                hint = "slim them into different folders, one after the other"
                raise UsageError(f"{seen[name]} and {file} would both be {name} in {self.directory}", hint=hint)


def check_proof_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for options of the command that do nothing where two files are proved."""
    for name, value in options.items():
        is_default = value is None or value is False or value == () or (name, value) == ("mode", "auto")
        if name not in _OF_PROOFS and not is_default:
            option = f"--{name.rstrip('_').replace('_', '-')}"
            hint = "slim first, or use --certificate with what is made"
            raise UsageError(f"{option} does nothing with --verify, which makes no file", hint=hint)


def parse_patterns(texts: Iterable[str], option: str) -> tuple[str, ...]:
    """Return the patterns of an option, also several in one text. Raises UsageError for an empty one."""
    found = tuple(part.strip() for text in texts for part in text.split(","))
    if "" in found:
        raise UsageError(f"{option}: a pattern is empty", hint="write PATTERN or PATTERN,PATTERN")
    return found


def slim_options(options: dict[str, Any]) -> SlimOptions:
    """Return the wishes that the options of the command describe. Raises TargetError for a device that nobody knows."""
    named = options["for_"]
    devices: tuple[Any, ...] = ()
    if named:
        from fatpack.targets.local_devices import parse_devices as read

        devices = read(named)
    keep_ptx = options["keep_ptx"]
    if options["drop_ptx"]:
        if keep_ptx not in (None, "none"):
            raise UsageError("--drop-ptx and --keep-ptx exclude each other")
        keep_ptx = "none"
    return SlimOptions(
        devices=devices,
        keep=parse_patterns(options["keep"], "--keep"),
        drop=parse_patterns(options["drop"], "--drop"),
        keep_ptx=keep_ptx,
        allow_empty=options["allow_empty"],
        drop_signature=options["drop_signature"],
        recompress=options["recompress"],
        level=options["level"],
        mode=options["mode"],
    )
