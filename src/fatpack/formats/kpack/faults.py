"""Damage inside a kpack archive: the errors for its fields."""

from __future__ import annotations

from fatpack.formats.diagnostics import ErrorFactory
from fatpack.formats.kpack.layout import KPACK_FORMAT

__all__ = ["kpack_errors"]

kpack_errors = ErrorFactory(KPACK_FORMAT)
