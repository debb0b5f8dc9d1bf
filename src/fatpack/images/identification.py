"""What an image says about itself, and the names of all forms: what every reader of claims returns."""

from __future__ import annotations

from fatpack.record import Record


class ImageInfo(Record):
    """What an image says about itself; "" and None where it says nothing.

    ``form`` is a key of :data:`EXTENSIONS`, or "" for bytes we do not know. ``arch`` is the processor as containers
    spell it (``sm_90a``, ``gfx90a:sramecc+:xnack-``), ``triple`` the least triple that is certain: a family such as
    ``nvptx64-nvidia-cuda`` or ``x86_64``, and for bitcode the stored one. ``size`` is the number of bytes the
    image's own headers describe: less than it was given when padding follows, more when it was cut short.
    ``detail`` is a short phrase for people. ``container`` is the JSON name of the format that may read the image as
    a container.
    """

    form: str
    arch: str = ""
    triple: str = ""
    size: int | None = None
    detail: str = ""
    container: str = ""


#: form → extension of extracted files, without the dot. The forms are what ``Image.form`` may hold.
EXTENSIONS = {
    "cubin": "cubin",
    "ptx": "ptx",
    "code-object": "hsaco",
    "object": "o",
    "bitcode": "bc",
    "spirv": "spv",
    "fatbin": "fatbin",
    "bundle": "hipfb",
    "offload-binary": "out",
    "syclbin": "syclbin",
    "cir": "cir",
    "ltoir": "ltoir",
    "tileir": "tileirbc",
    "llvm-ir": "ll",
    "assembly": "s",
    "preprocessed": "i",
    "archive": "a",
    "aocx": "aocx",
    "aocr": "aocr",
    "empty": "bin",
    "": "bin",
}

EMPTY = ImageInfo("empty", detail="no bytes")
UNKNOWN = ImageInfo("")

#: of a compressed image whose container says what it is: it was not inflated to ask its bytes
NOT_INFLATED = ImageInfo("", detail="not inflated")
