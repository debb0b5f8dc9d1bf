"""The codes of findings: stable, one line each, documented in ``docs/findings.md`` (generated from here).

FP10xx scan and nesting, FP11xx images, FP12xx LLVM offload binary, FP13xx clang offload bundles, FP20xx ELF hosts,
FP21xx archives, FP22xx COFF objects, FP23xx PE images, FP24xx bitcode. A code is never reused.
"""

from __future__ import annotations

from fatpack.model import Finding, Span

#: code → (severity, what it means and what to do)
CODES: dict[str, tuple[str, str]] = {
    "FP1001": ("error", "A container cannot be read; the message says at which field. Intact neighbours are listed."),
    "FP1002": ("warning", "Bytes between or after the containers of a section belong to none of them."),
    "FP1003": ("note", "Zero bytes after the last container; LLVM 22 refuses the whole section because of them."),
    "FP1004": ("warning", "Containers are nested deeper than the limit; the inner ones were not read."),
    "FP1005": ("warning", "The file has more findings or containers than are listed."),
    "FP1006": ("warning", "This version does not read this kind of container or host; it is named and left alone."),
    "FP1101": ("warning", "The stored image kind and the bytes of the image disagree."),
    "FP1102": ("warning", "The stored architecture and the one the image itself claims disagree."),
    "FP1103": ("warning", "The stored triple and the kind of machine the image is for disagree."),
    "FP1104": ("error", "The image looks damaged: its own headers point past its end."),
    "FP1105": ("note", "The image is stored as something that starts with a magic, and the magic is not there."),
    "FP1201": (
        "note",
        "The offload kind uses the numbering of LLVM 20 and older, or of DPC++; it is kept on rewriting.",
    ),
    "FP1202": (
        "note",
        "The container's size is no multiple of 8: readers of LLVM 22 and newer disagree on what follows.",
    ),
    "FP1203": ("warning", "Parts of the container overlap each other."),
    "FP1204": ("note", "A key occurs twice in one entry; LLVM uses the last."),
    "FP1205": ("note", "Bytes of the container that no field describes; they are kept on rewriting where possible."),
    "FP1206": ("note", "The container was written in big-endian byte order."),
    "FP1301": ("error", "An entry of a bundle is damaged: its image lies outside. The other entries are listed."),
    "FP1302": ("error", "The table of entries of a bundle is damaged from here on; the entries before it are listed."),
    "FP1303": (
        "warning",
        "The stored size of a compressed bundle is wrong. LLVM ignores the field, the HIP runtime relies on it.",
    ),
    "FP1304": ("warning", "The stored hash of a compressed bundle is not that of its content; no reader checks it."),
    "FP1305": (
        "warning",
        "The stored inflated size of a compressed bundle is wrong; LLVM refuses one that is too small.",
    ),
    "FP1306": ("warning", "Images of a bundle overlap each other."),
    "FP1307": ("warning", "Two entries of a bundle have the same ID, and readers that ask by ID get only one of them."),
    "FP1308": ("note", "Bytes of a bundle that belong to nothing; they are kept while its images are not changed."),
    "FP1309": (
        "note",
        "An empty entry lies past the end of its bundle, as LLVM 16 and older wrote it; LLVM 22 crashes on such files.",
    ),
    "FP1310": (
        "warning",
        "The table of entries of a HIP bundle is longer than the 4096 bytes that the HIP runtime looks at.",
    ),
    "FP1311": ("error", "An entry of a text bundle has no END line; its text is taken up to the next one."),
    "FP1312": ("warning", "The END lines of a text bundle do not match its entries; LLVM splits it differently."),
    "FP1313": ("warning", "The lines of a text bundle end in CRLF, so that LLVM does not find its IDs."),
    "FP2001": (
        "warning",
        "A section with the name of device code has the wrong section type: LLVM tools do not see it.",
    ),
    "FP2002": ("error", "A section that should hold device code lies outside the file."),
    "FP2003": ("warning", "A section named as device code holds none that we know."),
    "FP2101": ("error", "An archive is damaged from this member on; the members before it are listed."),
    "FP2102": (
        "warning",
        "The name of an archive member cannot be read; the member is listed as its header spells it.",
    ),
    "FP2103": ("error", "A thin archive names a file that is missing or cannot be read."),
    "FP2104": ("warning", "A thin archive names a file outside its own directory, which is not opened."),
    "FP2105": ("warning", "A file named by a thin archive has another size now than when the archive was made."),
    "FP2106": ("warning", "A thin archive names a file that is not followed: listed already, or nested too deeply."),
    "FP2201": ("error", "A section that should hold device code lies outside the COFF object."),
    "FP2202": ("error", "A section name of a COFF object cannot be read, so device code may be missed."),
    "FP2203": ("error", "The section table of a COFF object is cut short; the sections before the cut are listed."),
    "FP2301": ("error", "A section that should hold device code lies outside the PE image."),
    "FP2302": ("note", "A section of a PE image is named as device code, and no container we know is in it."),
    "FP2303": ("error", "The section table of a PE image is cut short; the sections before the cut are listed."),
    "FP2401": ("error", "The bitstream is damaged from here on; device code before it is listed."),
    "FP2402": ("warning", "A global in a section of device code is not initialised with bytes, so there is no data."),
}


def finding(code: str, span: Span, message: str, hint: str = "") -> Finding:
    """Return a finding with the severity that its code has in the table."""
    return Finding(code, CODES[code][0], span, message, hint)
