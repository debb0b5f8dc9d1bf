"""Damage inside a fat binary: the errors for its fields, and what collects them."""

from __future__ import annotations

from fatpack.formats.cuda_fatbin.layout import FATBIN_FORMAT
from fatpack.formats.diagnostics import ErrorFactory, FindingCollector

__all__ = ["FindingCollector", "fatbin_error", "fatbin_errors"]

fatbin_errors = ErrorFactory(FATBIN_FORMAT)

#: the error for a field that holds what it must not
fatbin_error = fatbin_errors.value
