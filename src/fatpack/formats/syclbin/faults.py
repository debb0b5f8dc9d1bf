"""Damage inside a SYCLBIN file: the errors for its fields."""

from __future__ import annotations

from fatpack.formats.faults import Errors
from fatpack.formats.syclbin.layout import FORMAT

__all__ = ["errors"]

errors = Errors(FORMAT)
