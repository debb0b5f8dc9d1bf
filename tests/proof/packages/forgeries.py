"""Forgeries of edited wheels and conda packages: a package before and after that only one rule of the proof rejects."""

from __future__ import annotations

import bz2
import io
import json
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

from tests.builders import amd_stores, conda, wheels
from tests.laws.rooms import FIXTURES
from tests.proof.elf_forgeries import Pair

LIBRARY = (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes()
INFO = "demo-1.5.dist-info"
FILES = {"demo/__init__.py": b"value = 1\n", "demo/libtwo.so": LIBRARY}
#: bytes before an archive, which begin as one
LEAD = b"PK\3\4lead"
#: a file that RECORD does not list
UNLISTED = {"demo/unlisted.py": b"value = 2\n"}


def zipped(
    files: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED, lead: bytes = b"", swap: bool = False
) -> bytes:
    """Return a zip archive; its offsets count from the begin of ``lead``.

    With ``swap`` the data of the first two files are in another order than the directory lists them.
    """
    into = io.BytesIO()
    into.write(lead)
    names = list(files)
    order = [names[1], names[0], *names[2:]] if swap else names
    with zipfile.ZipFile(into, "w") as archive:
        for name in order:
            info = zipfile.ZipInfo(name, (2024, 2, 3, 4, 5, 6))
            info.external_attr = 0o100644 << 16
            archive.writestr(info, files[name], method)
        archive.filelist.sort(key=lambda each: names.index(each.filename))
    return into.getvalue()


def wheel(**changes: bytes | None) -> dict[str, bytes]:
    """Return the files of a wheel; some have another content or are absent, and RECORD follows them."""
    contents = {f"{INFO}/METADATA": wheels.METADATA, f"{INFO}/WHEEL": wheels.WHEEL} | FILES
    contents |= {name: data for name, data in changes.items() if data is not None}
    lines = [f"{name},{wheels.digest(data)},{len(data)}\n" for name, data in contents.items()]
    return {**contents, f"{INFO}/RECORD": "".join([*lines, f"{INFO}/RECORD,,\n"]).encode(), **UNLISTED}


def with_record(change: Callable[[bytes], bytes]) -> dict[str, bytes]:
    files = wheel()
    return {**files, f"{INFO}/RECORD": change(files[f"{INFO}/RECORD"])}


def stored(files: Mapping[str, bytes]) -> Pair:
    """Return an odd wheel before, and the same one with files that are not compressed after."""
    return zipped(files), zipped(files, method=zipfile.ZIP_STORED)


def wheel_and(files: Mapping[str, bytes]) -> Pair:
    return zipped(wheel()), zipped(files)


def replaced(name: str, old: bytes, new: bytes) -> dict[str, bytes]:
    """Return a wheel in which some bytes of a file differ, and RECORD follows it."""
    data = wheel()[name]
    assert data.count(old)
    return wheel(**{name: data.replace(old, new, 1)})


def renamed(old: str, new: str) -> dict[str, bytes]:
    return {new if name == old else name: data for name, data in wheel().items()}


def _twice() -> Pair:
    """A name is there twice; RECORD does not list it."""
    files = {**wheel(), "demo/unlisted.pz": b"value = 3\n"}
    before, after = (data.replace(b"unlisted.pz", b"unlisted.py") for data in stored(files))
    return before, after


def _hidden_name() -> Pair:
    """Readers end the name of a file at a zero byte."""
    files = {**UNLISTED, **wheel()}
    name = next(iter(UNLISTED)).encode()
    data = zipped({name.decode() + ".evil" if each in UNLISTED else each: files[each] for each in files})
    return data.replace(name + b".evil", name + b"\0good"), data.replace(name + b".evil", name + b"\0evil")


def _longer_local_header() -> Pair:
    data = zipped(wheel())
    return data, data[:10] + b"\1\1" + data[12:]


def _other_disk() -> Pair:
    data = zipped(wheel())
    at = data.rindex(b"PK\1\2") + 34
    return data, data[:at] + b"\1" + data[at + 1 :]


def with_last(data: bytes, *, extra: bytes = b"", comment: bytes = b"", gap: bytes = b"", mode: int = 0) -> bytes:
    """Return an archive with more around its last file, which is the last one in the directory, too."""
    size, start = struct.unpack_from("<2I", data, len(data) - 10)
    entries, end = bytearray(data[start : start + size]), bytearray(data[start + size :])
    last = entries.rindex(b"PK\x01\x02")
    struct.pack_into("<2H", entries, last + 30, len(extra), len(comment))
    if mode:
        struct.pack_into("<I", entries, last + 38, mode << 16)
    entries += extra + comment
    struct.pack_into("<2I", end, 12, len(entries), start + len(gap))
    return data[:start] + gap + bytes(entries) + bytes(end)


VARIANT = f"{INFO}/variant.json"
DESCRIBED = b'{"$schema": "x", "default-priorities": {}, "providers": {}, "variants": {"sm90": {"a": {"b": ["c"]}}}}'


def variant(text: bytes = DESCRIBED, *, stem: str = "demo-1.5", is_listed: bool = True) -> bytes:
    """Return the wheel of a label: the description is its last file, and RECORD lists it."""
    files = wheel()
    line = f"{VARIANT},{wheels.digest(text)},{len(text)}\n".encode() if is_listed else b""
    record = (files[f"{INFO}/RECORD"] + line).replace(b"demo-1.5.", f"{stem}.".encode())
    files |= {f"{INFO}/RECORD": record, VARIANT: text}
    return zipped({name.replace("demo-1.5.", f"{stem}."): data for name, data in files.items()})


def variant_and(after: bytes) -> Pair:
    return zipped(wheel()), after


def _flags_of_the_last() -> Pair:
    data = bytearray(variant())
    data[data.rindex(b"PK\3\4") + 6] = 0x10
    return variant_and(bytes(data))


def _behind_the_last() -> Pair:
    """Stored bytes are after the data of the last file, and its size counts them."""
    data = with_last(variant(), gap=b"evil")
    local, entry = (data.rindex(magic) for magic in (b"PK\3\4", b"PK\1\2"))
    size = struct.pack("<I", struct.unpack_from("<I", data, local + 18)[0] + 4)
    return variant_and(data[: local + 18] + size + data[local + 22 : entry + 20] + size + data[entry + 24 :])


def with_gap(data: bytes, name: str, *, is_after: bool) -> bytes:
    """Return an archive with bytes that belong to nothing before or after a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        listed = archive.infolist()
        number = archive.namelist().index(name) + is_after
        at, start = listed[number].header_offset, archive.start_dir
    gap = b"between"
    made = bytearray(data[:at] + gap + data[at:])
    place = start + len(gap)
    for info in listed:
        offset = struct.unpack_from("<I", made, place + 42)[0]
        struct.pack_into("<I", made, place + 42, offset + (len(gap) if info.header_offset >= at else 0))
        place += 46 + len(info.filename.encode())
    struct.pack_into("<I", made, place + 16, start + len(gap))
    return bytes(made)


def _without(files: Mapping[str, bytes], *gone: str) -> Pair:
    """Return a wheel with more files, and the same one without some of them."""
    return zipped(wheel(**files)), zipped(wheel(**{name: data for name, data in files.items() if name not in gone}))


STORE = "demo/k.aks2"
_TABLE = "lib/TensileLibrary_Type_HH_gfx1100"


def _beside_a_store() -> Pair:
    before, after = _without({STORE: amd_stores.aks2([(b"k", amd_stores.hsaco("gfx1100"))])}, STORE)
    return with_gap(before, STORE, is_after=True), after


def _behind_data() -> Pair:
    """The first file is deflated before, and stored bytes are after its data in the second: its size counts them."""
    files = wheel()
    data = zipped(files)
    size, extra = struct.unpack_from("<I", data, 18)[0], 4
    name = len(next(iter(files)))
    end = 30 + name + size
    count, length, start = struct.unpack_from("<H2I", data, len(data) - 12)
    entries, at = bytearray(data[start : start + length]), 0
    for number in range(count):
        place = at + 42 if number else at + 20  # where the file is, or how many bytes are stored of it
        struct.pack_into("<I", entries, place, struct.unpack_from("<I", entries, place)[0] + extra)
        at += 46 + sum(struct.unpack_from("<3H", entries, at + 28))
    odd = data[:18] + struct.pack("<I", size + extra) + data[22:end] + b"evil" + data[end:start] + bytes(entries)
    return data, odd + data[start + length : -6] + struct.pack("<IH", start + extra, 0)


CONDA = {"lib/libtwo.so.1": LIBRARY, "site-packages/a.py": b"value = 1\n", "lib/plain.so": b"plain"}
LINKS = {"lib/libtwo.so": "libtwo.so.1"}
STEM = "demo-1.5-h12_0"
INDEX, PATHS = "info/index.json", "info/paths.json"


def described(files: Mapping[str, bytes] = CONDA) -> dict[str, bytes]:
    """Return the files of a conda package with those that describe it."""
    paths = [conda.entry(name, data) for name, data in files.items()]
    paths.append(conda.entry("lib/libtwo.so", LIBRARY, "softlink"))
    index = {"build": "h12_0", "build_number": 0, "name": "demo", "version": "1.5"}
    about = {INDEX: json.dumps(index).encode(), PATHS: json.dumps({"paths": paths, "paths_version": 1}).encode()}
    return {**about, **files}


def bzipped(files: Mapping[str, bytes], level: int = 9, links: Mapping[str, str] = LINKS) -> bytes:
    return bz2.compress(conda.tarred(dict(files), dict(links)), level)


def in_json(name: str, change: Callable[[Any], None]) -> dict[str, bytes]:
    """Return the files of a conda package with other JSON in one that describes it."""
    files = described()
    value = json.loads(files[name])
    change(value)
    return {**files, name: json.dumps(value).encode()}


def conda_and(files: Mapping[str, bytes]) -> Pair:
    return bzipped(described()), bzipped(files)


def _outer(stem: str = STEM, more: Mapping[str, bytes] | None = None) -> bytes:
    """Return a ``.conda``, with more files in the outer archive."""
    files = described()
    about = {name: files.pop(name) for name in (INDEX, PATHS)}
    data = conda.zipped(stem, conda.tarred(files, LINKS), conda.tarred(about))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = {info.filename: archive.read(info) for info in archive.infolist()}
    return zipped({**found, **(more or {})}, method=zipfile.ZIP_STORED)


def _entry_twice() -> Pair:
    tar = conda.tarred(described(), LINKS)
    more = conda.tarred({"site-packages/a.py": b"value = 1\n"})
    whole = tar.rstrip(b"\0")
    whole += bytes(-len(whole) % 512) + more
    return bz2.compress(whole), bz2.compress(whole, 1)


def _of_another(name: str) -> Pair:
    """A file that is no library differs, and the list of files follows it."""
    return conda_and(described({**CONDA, name: b"value = 2\n"}))


FORGERIES: dict[str, Callable[[], Pair]] = {
    "RECORD is no table": lambda: stored(with_record(lambda record: b'"a"b,,\n' + record)),
    "a line of RECORD is too short": lambda: stored(with_record(lambda record: record + b"a,b\n")),
    "a line of RECORD is there twice": lambda: stored(with_record(lambda record: record + b"demo/__init__.py,,\n")),
    "RECORD is missing": lambda: stored({name: data for name, data in wheel().items() if "RECORD" not in name}),
    "RECORD lists a file that is missing": lambda: stored(with_record(lambda record: record + b"demo/none.py,,\n")),
    "RECORD lists a file less": lambda: wheel_and(with_record(lambda record: record.partition(b"\n")[2])),
    "RECORD states another size": lambda: wheel_and(
        with_record(lambda record: record.replace(f",{len(wheels.WHEEL)}\n".encode(), b",1\n"))
    ),
    "RECORD states another digest": lambda: wheel_and(
        with_record(lambda record: record.replace(wheels.digest(wheels.WHEEL).encode(), wheels.digest(b"").encode()))
    ),
    "another tag": lambda: wheel_and(replaced(f"{INFO}/WHEEL", b"py3", b"py2")),
    "a header in a build tag": lambda: wheel_and(
        replaced(f"{INFO}/WHEEL", b"\nTag:", b"\nBuild: 1\rRoot-Is-Purelib: true\nTag:")
    ),
    "another version": lambda: wheel_and(replaced(f"{INFO}/METADATA", b"Version: 1.5", b"Version: 1.6")),
    "another content": lambda: wheel_and(wheel(**{"demo/__init__.py": b"value = 2\n"})),
    "another library": lambda: wheel_and(replaced("demo/libtwo.so", b"GCC: (", b"GCC; (")),
    "one file more": lambda: wheel_and({**wheel(), "demo/more.py": b""}),
    "another name": lambda: wheel_and(renamed("demo/unlisted.py", "demo/unlisted.pz")),
    "a name that is there twice": _twice,
    "a name with more after a zero byte": _hidden_name,
    "another order of the data": lambda: (zipped(wheel()), zipped(wheel(), swap=True)),
    "offsets that count from elsewhere": lambda: (zipped(wheel(), lead=LEAD), LEAD + zipped(wheel())),
    "bytes before the archive": lambda: (zipped(wheel()), zipped(wheel(), lead=LEAD)),
    "other bytes before the archive": lambda: (zipped(wheel(), lead=LEAD), zipped(wheel(), lead=LEAD[:-1] + b"D")),
    "a local header": _longer_local_header,
    "an entry of the directory": _other_disk,
    "bytes after the data of a file": _behind_data,
    "bytes after the archive": lambda: (zipped(wheel()), zipped(wheel()) + bytes(32)),
    "a description is missing": lambda: (
        bzipped({name: data for name, data in described().items() if name != PATHS}),
        bzipped({name: data for name, data in described().items() if name != PATHS}, 1),
    ),
    "the description of a variant": lambda: variant_and(variant(b"[]")),
    "the label of a variant": lambda: variant_and(variant(DESCRIBED.replace(b"sm90", b"sm80"))),
    "a variant that RECORD does not list": lambda: variant_and(variant(is_listed=False)),
    "the version of a variant": lambda: variant_and(variant(stem="demo-1.6")),
    "the rights of a variant's description": lambda: variant_and(with_last(variant(), mode=0o100755)),
    "an extra field of a variant's description": lambda: variant_and(with_last(variant(), extra=b"\x99\x99\4\0evil")),
    "bytes after a variant's description": lambda: variant_and(with_last(variant(), gap=b"evil")),
    "bytes in a variant's description": _behind_the_last,
    "flags of a variant's description": _flags_of_the_last,
    "a lower number of the build": lambda: conda_and(in_json(INDEX, lambda index: index.update(build_number=-1))),
    "another license": lambda: conda_and(in_json(INDEX, lambda index: index.update(license="other"))),
    "another dependency": lambda: conda_and(in_json(INDEX, lambda index: index.update(depends=["evil"]))),
    "no dependency on a device": lambda: (
        bzipped(in_json(INDEX, lambda index: index.update(depends=["cuda-arch >=8.0"]))),
        bzipped(described()),
    ),
    "another build": lambda: conda_and(in_json(INDEX, lambda index: index.update(build="other"))),
    "another version of the list": lambda: conda_and(in_json(PATHS, lambda paths: paths.update(paths_version=2))),
    "a path less": lambda: conda_and(in_json(PATHS, lambda paths: paths["paths"].pop())),
    "another digest of a path": lambda: conda_and(
        in_json(PATHS, lambda paths: paths["paths"][1].update(sha256="0" * 64))
    ),
    "another type of a path": lambda: conda_and(
        in_json(PATHS, lambda paths: paths["paths"][1].update(path_type="softlink"))
    ),
    "the name of an archive": lambda: (_outer(), _outer("demo-1.5-other")),
    "one file more in the outer archive": lambda: (_outer(), _outer(more={"more": b""})),
    "another name in the outer archive": lambda: (
        _outer(more={"note.txt": b"note"}),
        _outer(more={"nota.txt": b"note"}),
    ),
    "another content in the outer archive": lambda: (
        _outer(more={"note.txt": b"note"}),
        _outer(more={"note.txt": b"Note"}),
    ),
    "one file more in a package": lambda: (bzipped(described()), bzipped(described(), links={**LINKS, "more": "a.so"})),
    "another name in a package": lambda: conda_and(
        {"site-packages/b.py" if name == "site-packages/a.py" else name: data for name, data in described().items()}
    ),
    "a link to elsewhere": lambda: (bzipped(described()), bzipped(described(), links={"lib/libtwo.so": "plain.so"})),
    "an entry that is there twice": _entry_twice,
    "an archive of kernels with other bytes is missing": lambda: _without({STORE: b"AKS2 and more"}, STORE),
    "a table is missing and its code is not": lambda: _without(
        {f"{_TABLE}.dat": b"\x80", f"{_TABLE}.co": amd_stores.hsaco("gfx1100")}, f"{_TABLE}.dat"
    ),
    "bytes after an archive of kernels that is missing": _beside_a_store,
}

#: forgeries that other rules reject as well
OTHERS: dict[str, Callable[[], Pair]] = {
    "the rights of a file": lambda: _with_rights(zipped(wheel())),
    "the rights of a file in the outer archive": lambda: _with_rights(_outer()),
}


def _with_rights(data: bytes) -> Pair:
    at = data.rindex(b"PK\1\2") + 38
    return data, data[:at] + b"\1" + data[at + 1 :]
