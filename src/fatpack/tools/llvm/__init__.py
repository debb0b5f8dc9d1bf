"""``fatpack tool llvm-objdump`` and ``llvm-readobj``: what ``--offloading`` prints; all else is the original's."""

from __future__ import annotations
