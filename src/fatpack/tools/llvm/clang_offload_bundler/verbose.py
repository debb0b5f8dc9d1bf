"""What ``-verbose`` says about compression, on stderr. Only the speed differs from run to run."""

from __future__ import annotations

import sys

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class CompressionMeasures(Record):
    """Numbers of one compression or decompression; ``stream_size`` are the compressed bytes without the header."""

    version: int
    method: str
    size: int | None
    stream_size: int
    inflated_size: int
    hash: bytes
    seconds: float


def print_compressed(measures: CompressionMeasures, level: int) -> None:
    """Say what was compressed."""
    _write(
        [
            f"Compressed bundle format version: {measures.version}",
            f"Total file size (including headers): {measures.size:,} bytes",
            f"Compression method used: {measures.method}",
            f"Compression level: {level}",
            f"Binary size before compression: {measures.inflated_size:,} bytes",
            f"Binary size after compression: {measures.stream_size:,} bytes",
            *_rates(measures, "Compression"),
            f"Truncated MD5 hash: {_hash(measures.hash)}",
        ]
    )


def print_inflated(measures: CompressionMeasures, recalculated: bytes) -> None:
    """Say what was inflated; ``recalculated`` is the hash of what came out."""
    total = [] if measures.size is None else [f"Total file size (from header): {measures.size:,} bytes"]
    _write(
        [
            f"Compressed bundle format version: {measures.version}",
            *total,
            f"Decompression method: {measures.method}",
            f"Size before decompression: {measures.stream_size:,} bytes",
            f"Size after decompression: {measures.inflated_size:,} bytes",
            *_rates(measures, "Decompression"),
            f"Stored hash: {_hash(measures.hash)}",
            f"Recalculated hash: {_hash(recalculated)}",
            f"Hashes match: {'Yes' if measures.hash == recalculated else 'No'}",
        ]
    )


def print_not_compressed(llvm: str) -> None:
    """Say that the input was no compressed bundle."""
    _write(["Uncompressed bundle." if llvm == "22" else "Uncompressed bundle"])


def _rates(measures: CompressionMeasures, what: str) -> list[str]:
    rate = measures.inflated_size / measures.stream_size if measures.stream_size else float("inf")
    ratio = 100 / rate if rate else float("inf")
    speed = measures.inflated_size / (1 << 20) / max(measures.seconds, 1e-9)
    return [f"Compression rate: {rate:.2f}", f"Compression ratio: {ratio:.2f}%", f"{what} speed: {speed:.2f} MB/s"]


def _hash(stored: bytes) -> str:
    return f"0x{int.from_bytes(stored, 'little'):014x}"


def _write(lines: Sequence[str]) -> None:
    sys.stderr.write("".join(f"{line}\n" for line in lines))
