"""Damage inside an offload binary: the errors for its fields."""

from __future__ import annotations

from fatpack.formats.faults import Errors
from fatpack.formats.offload_binary.layout import FORMAT

__all__ = ["errors", "fault"]

errors = Errors(FORMAT)

#: the error for a field that holds what it must not
fault = errors.value
