"""Damage inside a bundle: the errors for its fields, and what collects them."""

from __future__ import annotations

from fatpack.formats.clang_bundle.layout import FORMAT
from fatpack.formats.faults import Errors, Faults

__all__ = ["Faults", "errors", "fault"]

errors = Errors(FORMAT)

#: the error for a field that holds what it must not
fault = errors.value
