"""Builds the stores in which AMD's libraries keep device code: folders of Tensile, AKS2, databases of kernels."""

from __future__ import annotations

import bz2
import hashlib
import lzma
import sqlite3
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

KERNELS = Path(__file__).parents[1] / "fixtures" / "kernels"


def hsaco(arch: str) -> bytes:
    """Return a code object of one kernel, ``attn_fwd``, for gfx942 or gfx1100."""
    return (KERNELS / f"attn_fwd.v6.{arch}.hsaco").read_bytes()


def messagepack(value: object) -> bytes:
    """Return a value as MessagePack, in the encodings that msgpack's packers choose for short ones."""
    if value is None:
        return b"\xc0"
    if isinstance(value, int):
        return bytes((value,)) if value < 0x80 else struct.pack(">BI", 0xCE, value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    if isinstance(value, str):
        text = value.encode()
        return (bytes((0xA0 | len(text),)) if len(text) < 32 else struct.pack(">BB", 0xD9, len(text))) + text
    if isinstance(value, list):
        head = bytes((0x90 | len(value),)) if len(value) < 16 else struct.pack(">BH", 0xDC, len(value))
        return head + b"".join(map(messagepack, value))
    assert isinstance(value, dict)
    return bytes((0x80 | len(value),)) + b"".join(messagepack(key) + messagepack(each) for key, each in value.items())


TABLE = "TensileLibrary_Type_HH_Contraction_l_Ailk_Bljk_Cijk_Dijk_{arch}"
FALLBACK = "TensileLibrary_Type_SS_Contraction_l_Ailk_Bljk_Cijk_Dijk_fallback_{arch}"


def parent(names: Iterable[str], arch: str = "gfx942") -> bytes:
    """Return the parent table that names some tables, for lazy loading."""
    rows = [
        {"predicate": {"type": "TruePred"}, "library": {"type": "Placeholder", "value": name}, "size": [1, 2.5, None]}
        for name in names
    ]
    device = {"type": "AMDGPU", "value": {"type": "Processor", "value": arch}}
    library = {"type": "Hardware", "rows": [{"predicate": device, "library": {"type": "Problem", "rows": rows}}]}
    return messagepack({"solutions": [], "library": library})


def leaf() -> bytes:
    """Return a table of one solution."""
    solutions = [{"name": "Cijk_Ailk_Bljk_HHS_BH_MT64x64x32", "index": 0}]
    return messagepack({"solutions": solutions, "library": {"type": "Single", "index": 0}})


def tensile_library(folder: Path, arch: str = "gfx942", *, code: bytes | None = None) -> Path:
    """Write a sound library for a target, with two tables; ``code`` takes the place of the first table's."""
    folder.mkdir(parents=True, exist_ok=True)
    table, fallback, image = TABLE.format(arch=arch), FALLBACK.format(arch=arch), hsaco(arch)
    files = {
        f"TensileLibrary_lazy_{arch}.dat": parent((table, fallback), arch),
        f"{table}.dat": leaf(),
        f"{table}.co": image if code is None else code,
        f"{fallback}.dat": leaf(),
        f"{fallback}.hsaco": image,
        f"Kernels.so-000-{arch}.hsaco": image,
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


#: the key of a kernel in an archive of AOTriton
KEY = b"attn_fwd-Sig-F__^fp16@16__P__32__CO__wave2_warp4_stg1-Gpu-gfx942"


def aks2(
    rows: Sequence[tuple[bytes, bytes]],
    *,
    count: int | None = None,
    directory_size: int | None = None,
    total: int | None = None,
    offsets: Sequence[int] | None = None,
    rest: bytes = b"",
    preset: int = 6,
) -> bytes:
    """Return an archive of keys with their images (empty: without code); numbers replace what the header says.

    ``offsets`` replace those of the images, ``rest`` follows the images in the stream. A low
    ``preset`` makes a stream that takes little memory.
    """
    directory, at = b"", 0
    for number, (name, image) in enumerate(rows):
        offset = at if offsets is None else offsets[number]
        facts = (4096, 256, offset, len(image)) if image else (0, 0, offset, 0)
        directory += struct.pack("<5I", *facts, len(name) + 1) + name + b"\0"
        at += len(image)
    body = directory + b"".join(image for _, image in rows) + rest
    sizes = (
        len(body) if total is None else total,
        len(rows) if count is None else count,
        len(directory) if directory_size is None else directory_size,
    )
    return b"AKS2" + struct.pack("<3I", *sizes) + lzma.compress(body, preset=preset)


#: the tables of MIOpen and rocFFT
KERN_DB = """CREATE TABLE kern_db (id INTEGER PRIMARY KEY ASC, kernel_name TEXT NOT NULL, kernel_args TEXT NOT NULL,
kernel_blob BLOB NOT NULL, kernel_hash TEXT NOT NULL, uncompressed_size INT NOT NULL);
CREATE UNIQUE INDEX idx_kern_db ON kern_db (kernel_name, kernel_args);"""
CACHE_V1 = """CREATE TABLE cache_v1 (kernel_name TEXT NOT NULL, arch TEXT NOT NULL, hip_version INTEGER NOT NULL,
generator_sum BLOB NOT NULL, code BLOB NOT NULL, timestamp INTEGER NOT NULL,
PRIMARY KEY (kernel_name, arch, hip_version, generator_sum))"""


def database(script: str, insert: str, rows: Sequence[tuple[object, ...]], page_size: int = 4096) -> bytes:
    """Return a database of SQLite with a table and its rows."""
    made = sqlite3.connect(":memory:")
    made.execute(f"PRAGMA page_size = {page_size}")
    made.executescript(script)
    if rows:
        made.executemany(insert, rows)
    made.commit()
    data: bytes = made.serialize()
    made.close()
    return data


def row(name: str, options: str, code: bytes, *, packed: bool = False, digest: str = "") -> tuple[object, ...]:
    """Return a row of MIOpen's database, with the blob compressed or as it is."""
    blob = bz2.compress(code) if packed else code
    return name, options, blob, digest or hashlib.md5(code).hexdigest(), len(code) if packed else 0


def kdb(rows: Sequence[tuple[object, ...]], page_size: int = 4096) -> bytes:
    """Return a database of MIOpen."""
    columns = "kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size"
    return database(KERN_DB, f"INSERT INTO kern_db ({columns}) VALUES (?, ?, ?, ?, ?)", rows, page_size)


def rocfft(rows: Sequence[tuple[str, str, bytes]], version: int = 60443483) -> bytes:
    """Return a cache of rocFFT: name, architecture and code of each kernel."""
    full = [(name, arch, version + number // 100, bytes(32), code, 0) for number, (name, arch, code) in enumerate(rows)]
    return database(CACHE_V1, "INSERT INTO cache_v1 VALUES (?, ?, ?, ?, ?, ?)", full)
