"""Input and output: sources of bytes (files, memory, URLs, inflated streams), and files that are written atomically."""

from __future__ import annotations
