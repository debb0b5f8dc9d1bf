"""Records that register fat binaries with CUDA's and HIP's runtimes."""

from __future__ import annotations
