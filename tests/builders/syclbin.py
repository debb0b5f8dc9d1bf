"""SYCLBIN files built with struct alone, as DPC++'s ``SYCLBIN.cpp`` and ``syclbin.cpp`` describe them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

SPIR64, GEN = "spir64-unknown-unknown", "spir64_gen-unknown-unknown"


def base64(data: bytes) -> str:
    """Return bytes in DPC++'s encoding: six bits at a time, lowest first, without padding."""
    bits = "".join(f"{byte:08b}"[::-1] for byte in data)
    groups = (bits[at : at + 6] for at in range(0, len(bits), 6))
    return "".join(ALPHABET[int(group[::-1], 2)] for group in groups)


def sets(content: Mapping[str, Mapping[str, int | bytes]]) -> bytes:
    """Return property sets as text."""
    lines = []
    for name, properties in content.items():
        lines.append(f"[{name}]")
        for key, value in properties.items():
            if isinstance(value, int):
                lines.append(f"{key}=1|{value}")
            else:
                lines.append(f"{key}=2|{base64(struct.pack('<Q', 8 * len(value)) + value)}")
    return "".join(f"{line}\n" for line in lines).encode()


@dataclass
class Image:
    """An image: its bytes, its triple, and the architecture of native code (None: an IR module)."""

    data: bytes
    triple: str = SPIR64
    arch: str | None = None

    @property
    def role(self) -> str:
        return "ir" if self.arch is None else "native"

    @property
    def metadata(self) -> bytes:
        target = self.triple.encode()
        if self.arch is None:
            return sets({"SYCLBIN/ir module metadata": {"type": 0, "target": target}})
        return sets({"SYCLBIN/native device code image metadata": {"arch": self.arch.encode(), "target": target}})


@dataclass
class Module:
    """An abstract module: its images, IR modules first, and its property sets."""

    images: Sequence[Image]
    properties: bytes = b""


def state(number: int) -> bytes:
    return sets({"SYCLBIN/global metadata": {"state": number}})


def v1(modules: Sequence[Module], number: int = 2, *, order: str = "tools") -> bytes:
    """Return a file of version 1, with its metadata in the order of DPC++'s tools or of its runtime."""
    every = [image for module in modules for image in module.images]
    by_role = {role: [image for image in every if image.role == role] for role in ("ir", "native")}
    texts = [("global", state(number))]
    if order == "tools":
        for at, module in enumerate(modules):
            texts += [
                (f"am{at}", module.properties),
                *((f"image{id(image)}", image.metadata) for image in module.images),
            ]
    else:
        texts += [(f"am{at}", module.properties) for at, module in enumerate(modules)]
        texts += [(f"image{id(image)}", image.metadata) for role in by_role for image in by_role[role]]
    places, table = {}, b""
    for name, text in texts:
        places[name] = (len(table), len(text))
        table += text
    blobs, binary = {}, b""
    for image in every if order == "tools" else [*by_role["ir"], *by_role["native"]]:
        blobs[id(image)] = (len(binary), len(image.data))
        binary += image.data
    counts = [len(modules), len(by_role["ir"]), len(by_role["native"])]
    data = struct.pack("<5I4xQQQQ", 0x53594249, 1, *counts, len(table), len(binary), *places["global"])
    irs = natives = 0
    for at, module in enumerate(modules):
        ir = sum(image.role == "ir" for image in module.images)
        native = len(module.images) - ir
        data += struct.pack("<QQIIII", *places[f"am{at}"], ir, irs, native, natives)
        irs, natives = irs + ir, natives + native
    for image in [*by_role["ir"], *by_role["native"]]:
        data += struct.pack("<QQQQ", *places[f"image{id(image)}"], *blobs[id(image)])
    data += table + bytes(-len(table) % 8) + binary
    return data + bytes(-len(data) % 8)


def of_runtime(content: bytes) -> bytes:
    """Return version 1 in the offload binary that DPC++'s runtime makes: no strings, and 5 for SYCL."""
    entry = struct.pack("<HHIQQQQ", 7, 5, 0, 0, 0, 72, len(content))
    return struct.pack("<4sIQQQ", b"\x10\xff\x10\xad", 2, 72 + len(content), 32, 1) + entry + content


#: The entries of a file of version 2: strings, and what they are the strings of
Entries = list[tuple[dict[str, str], bytes]]


def entries(modules: Sequence[Module], number: int = 2) -> Entries:
    """Return the entries of a file of version 2, in DPC++'s order."""
    rows: Entries = [({"sycl_format_version": "2", "role": "global_metadata"}, state(number))]
    for at, module in enumerate(modules):
        rows.append(({"sycl_format_version": "2", "role": "am_metadata", "am_index": str(at)}, module.properties))
        for image in module.images:
            facts = {"ir_type": "0"} if image.arch is None else {"arch": image.arch}
            strings = {"sycl_format_version": "2", "role": image.role, "am_index": str(at)}
            content = struct.pack("<Q", len(image.metadata)) + image.metadata + image.data
            rows.append((strings | facts | {"triple": image.triple}, content))
    return rows


def v2(rows: Entries, *, kind: int = 7, offload: int = 8) -> bytes:
    """Return entries as an offload binary of version 2; its string table shares nothing."""
    count = sum(len(strings) for strings, _ in rows)
    strings_at = 32 + 40 * len(rows)
    table_at = strings_at + 24 * count
    table, records = b"\0", b""
    for strings, _ in rows:
        for key, value in strings.items():
            at = table_at + len(table)
            records += struct.pack("<QQQ", at, at + len(key) + 1, len(value))
            table += key.encode() + b"\0" + value.encode() + b"\0"
    at = table_at + len(table)
    at += -at % 8
    front, seen = b"", 0
    image_at = at
    for strings, content in rows:
        front += struct.pack("<HHIQQQQ", kind, offload, 0, strings_at + 24 * seen, len(strings), image_at, len(content))
        seen += len(strings)
        image_at += len(content)
    body = front + records + table
    body += bytes(at - 32 - len(body)) + b"".join(content for _, content in rows)
    body += bytes(-len(body) % 8)
    return struct.pack("<4sIQQQ", b"\x10\xff\x10\xad", 2, 32 + len(body), 32, len(rows)) + body


def yaml(rows: Entries) -> str:
    """Return entries as the text that yaml2obj makes an offload binary of."""
    lines = ["--- !Offload", "Members:"]
    for strings, content in rows:
        lines += ["  - ImageKind: 7", "    OffloadKind: OFK_SYCL", "    Flags: 0", "    String:"]
        for key, value in strings.items():
            lines += [f"      - Key: '{key}'", f"        Value: '{value}'"]
        if content:
            lines.append(f"    Content: '{content.hex()}'")
    return "\n".join([*lines, "...", ""])
