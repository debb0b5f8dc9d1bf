"""Damage inside a SYCLBIN file: the errors for its fields."""

from __future__ import annotations

from fatpack.formats.diagnostics import ErrorFactory
from fatpack.formats.syclbin.syclbin_layout import SYCLBIN_FORMAT

__all__ = ["syclbin_errors"]

syclbin_errors = ErrorFactory(SYCLBIN_FORMAT)
