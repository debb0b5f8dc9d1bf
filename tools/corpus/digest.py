"""The payload digest: one number that shows if all images of a file were read, byte for byte.

Every image gives one line of text, ``LABEL SIZE SHA256``: its label, its size in bytes in decimal, and the sha256 of
its bytes in lower-case hexadecimal, after decompression. The lines are sorted as strings and joined by newlines,
without one at the end; the digest is the sha256 of that text. So it depends on neither order nor place nor compression
of the images, and images that occur twice count twice. The labels:

=========================  ==============================================================================
``offload_binary``          ``OFFLOAD IMAGE TRIPLE ARCH``, the two kinds as stored numbers:
                            ``4 2 spir64_gen-unknown-unknown pvc``
``cuda``                    ``KIND ARCH``: ``elf sm_80``
``bundles``                 the bundle ID as stored; empty entries count
``clang_bundle_sections``   the whole name of the section, its prefix too
``sycl_images``             kind of the bytes: ``spirv``, ``ar``
=========================  ==============================================================================

How we know: the counter that made the numbers is not available. This definition was found by trial, and reproduces the
numbers of ``isr252-asan-new``, ``36_nvcc_empty.fatbin``, ``bpy-oidn-hip`` (which distinguishes sorted strings from
sorted tuples), ``12_hip_olddrv_rdc.o`` and ``bnb-xpu2025``, in the order of the table.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.io.source import View


def payload_line(label: str, data: View) -> str:
    """Return the line of one image: label, size, sha256."""
    digest = hashlib.sha256()
    for piece in data.pieces():
        digest.update(piece)
    return f"{label} {len(data)} {digest.hexdigest()}"


def payload_digest(lines: Iterable[str]) -> str:
    """Return the digest of the lines of all images."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
