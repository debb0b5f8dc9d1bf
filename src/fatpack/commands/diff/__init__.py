"""The command ``diff``: device code of two releases compared."""

from __future__ import annotations
