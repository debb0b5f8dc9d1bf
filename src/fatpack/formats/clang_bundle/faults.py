"""Damage inside a bundle: the errors for its fields, and what collects them."""

from __future__ import annotations

from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT
from fatpack.formats.diagnostics import ErrorFactory, FindingCollector

__all__ = ["FindingCollector", "bundle_error", "bundle_errors"]

bundle_errors = ErrorFactory(BUNDLE_FORMAT)

#: the error for a field that holds what it must not
bundle_error = bundle_errors.value
