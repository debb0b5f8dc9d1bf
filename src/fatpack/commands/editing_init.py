"""The commands that write a changed copy of a file, or change it in place."""

from __future__ import annotations
