"""The result of identifying an image, and the names of all forms."""

from __future__ import annotations

from fatpack.record import Record


class ImageInfo(Record):
    """The form, target and size that an image states about itself; "" and None for missing facts.

    ``form`` is a key of :data:`EXTENSIONS`, or "" for unknown bytes. ``arch`` is the processor in the spelling of
    containers (``sm_90a``, ``gfx90a:sramecc+:xnack-``), ``triple`` the part of the triple that is certain: a family
    such as ``nvptx64-nvidia-cuda`` or ``x86_64``, and for bitcode the stored one. ``size`` is the number of bytes that
    the image's own headers describe: less than the available bytes if padding follows, more if it is truncated.
    ``detail`` is a short phrase for people. ``container`` is the JSON name of the format that may read the image as a
    container.
    """

    form: str
    arch: str = ""
    triple: str = ""
    size: int | None = None
    detail: str = ""
    container: str = ""


#: form → extension of extracted files, without the dot; the keys are the values of ``Image.form``.
EXTENSIONS = {
    "cubin": "cubin",
    "ptx": "ptx",
    "code-object": "hsaco",
    "object": "o",
    "bitcode": "bc",
    "spirv": "spv",
    "air": "air",
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

#: for compressed images whose container states their form: their bytes were not inflated
NOT_INFLATED = ImageInfo("", detail="not inflated")
