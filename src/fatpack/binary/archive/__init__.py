"""Archives (``.a``, ``.lib``): many files in one, with tables of symbols and long names for the linker.

::

    0x00  "!<arch>\\n" (thin: "!<thin>\\n")
    then per member, each at an even offset:
    0x00  name[16] date[12] user[6] group[6] mode[8] size[10] "`\\n", all text padded with blanks
    0x3c  size bytes (BSD: the name first), a newline if the size is odd
          files of a thin archive have no bytes here: their name is a path

======================  =====================================================================================
``/``, ``/SYM64/``      GNU's symbol table: count, header offset per symbol, names; big-endian, 32 or 64 bits
``/`` a second time     Microsoft's: member count, header offset per member, then symbols; little-endian
``__.SYMDEF[_64]``      BSD's: size, (name, header offset) pairs, names; also with `` SORTED``; first member only
``//``                  long names; ``/123`` in a header is the name that starts at byte 123 of it
``/<…>/``               further tables of Microsoft's
======================  =====================================================================================

Sources: ``ar(5)`` documents GNU and BSD archives, the PE/COFF specification those of Microsoft. What llvm-ar
22 and GNU ar 2.40 write is compared with ours in the reference tests, member by member and byte by byte.

QUIRK(macOS): the first eight bytes do not tell GNU, BSD and Microsoft archives apart; the reader accepts the spelling
of each name, so mixed archives can be read too.
"""

from __future__ import annotations

from fatpack.binary import MEMBER, CodeSection
from fatpack.binary.archive.layout import BIG, FORMAT, HEADER, MAGIC_SIZE, REGULAR, THIN
from fatpack.binary.archive.reader import DamagedMember, read_intact_members, read_members
from fatpack.findings import finding
from fatpack.io.source import View
from fatpack.layout import FormatInfo
from fatpack.model import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fatpack.io.source import Piece
    from fatpack.model import Label

__all__ = [
    "DOC",
    "LAYOUTS",
    "build_archive",
    "check",
    "detect",
    "labels",
    "locate",
    "read_members",
    "rewrite",
    "verify",
]

DOC = FormatInfo(
    name=FORMAT,
    title="ar archive",
    description=(
        "Static libraries: object files one after the other, after a table of their symbols. Written by ar, llvm-ar, "
        "lib, llvm-lib and libtool."
    ),
    references=(
        "ar(5) of FreeBSD 14",
        "Microsoft PE and COFF specification, section Archive (Library) File Format",
        "llvm/lib/Object/Archive.cpp and ArchiveWriter.cpp, LLVM 22.1",
        "GNU binutils 2.40, bfd/archive.c (thin archives)",
    ),
    reads="GNU, BSD, Darwin and Microsoft archives, 32- and 64-bit symbol tables, thin archives",
    writes="the same but thin ones, with other member contents; GNU archives of any files (library: ``build``)",
    limitations=(
        "Thin archives are read, not written. The files they name are opened only below the archive's own directory.",
        "AIX big archives are recognised, but not read.",
        "Archives with Microsoft's ARM64EC or XFG tables are read, not written.",
        "After a damaged member header the next one is found by its form: data that look like a header count as one.",
        "New archives are GNU's. Mach-O, Wasm, XCOFF and GOFF members are refused, because their symbols are not read.",
        "New archives do not list the symbols that inline assembly defines in bitcode without LLVM's symbol table.",
    ),
)

LAYOUTS = (HEADER,)


def detect(view: View) -> bool:
    """Return whether the bytes start with the magic of an archive, AIX's included."""
    return view.head(0, MAGIC_SIZE) in (REGULAR, THIN, BIG)


def locate(view: View, without: Collection[int] = ()) -> Iterator[CodeSection | Finding]:
    """Yield every member as a file of its own; ``index`` counts them from 0, and names may occur more than once.

    Members with numbers in ``without`` are skipped. Members of a thin archive are files in its directory; each must be
    read before the next is requested, or it is opened again.
    """
    magic = view.head(0, MAGIC_SIZE)
    if magic == BIG:
        yield finding("FP1006", view.span(), "AIX big archive: this version does not read these")
        return
    siblings = None
    if magic == THIN:
        from fatpack.binary.archive.byte_labels import ThinArchiveFiles

        siblings = ThinArchiveFiles(view)
    for member in read_intact_members(view):
        if isinstance(member, DamagedMember):
            error = member.error
            yield finding("FP2101", view.span(member.at, member.end - member.at), error.describe(), error.hint)
            continue
        if member.number is None or member.number in without:
            continue
        if siblings is None:
            data = view.slice(member.data_at, member.size)
            yield _site(view, data, member.title, member.number, member.findings)
            continue
        found = siblings.open(member)
        if isinstance(found, Finding):
            yield from member.findings
            yield found
            continue
        title, data = found
        findings = list(member.findings)
        if member.origin is None and len(data) != member.size:
            text = f"member {title}: {member.size} bytes then, {len(data)} now"
            findings.append(finding("FP2105", data.span(), text, "rebuild the archive if it should be current"))
        yield _site(view, data, title, member.number, tuple(findings))
        data.source.release_buffers()


def _site(archive: View, data: View, title: str, number: int, findings: tuple[Finding, ...]) -> CodeSection:
    outside = archive.chain[-1] if archive.chain else ""
    chain = (*archive.chain[:-1], f"{outside}({title})")
    return CodeSection(View(data.source, data.start, data.end, chain), None, number, title, MEMBER, findings)


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers field by field, contents as a whole."""
    from fatpack.binary.archive.byte_labels import label_archive

    return label_archive(view)


def build_archive(members: Sequence[tuple[bytes, View]]) -> list[Piece]:
    """Return a GNU archive of files, given by name and bytes, equal to the output of ``llvm-ar --format=gnu qcD``.

    Names are stored as given, so callers pass base names; they may repeat. Raises FormatError for an object whose
    symbols cannot be read, Unsupported, UsageError and HostError for files that no archive can contain.
    """
    from fatpack.binary.archive.writer import build_gnu_archive

    return build_gnu_archive(members)


def rewrite(view: View, contents: Mapping[int, Sequence[Piece]]) -> Sequence[Piece]:
    """Return the archive with the contents of some members replaced; keys are ``CodeSection.index``.

    Offsets in symbol tables are changed. Raises HostError if the archive cannot be written, FormatError if it is
    damaged, UsageError for an unknown member.
    """
    from fatpack.binary.archive.writer import rewrite_members

    return rewrite_members(view, contents)


def check(view: View) -> Iterator[int | Finding]:
    """Yield the errors of the symbol tables, and finally the number of checked names."""
    from fatpack.binary.archive.byte_labels import check_symbol_tables

    return check_symbol_tables(view)


def verify(before: View, after: View) -> None:
    """Raise HostError unless both archives have the same members and symbols; contents may differ."""
    from fatpack.binary.archive.writer import verify_members

    verify_members(before, after)
