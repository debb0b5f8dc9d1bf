"""The command ``inspect``: listings, rows, totals, registration and byte dumps of files."""

from __future__ import annotations

#: what ``--by`` takes
KEYS = ("arch", "form", "kernel", "file")
