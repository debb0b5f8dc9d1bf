"""Answers about files, for Python: one module per question."""

from __future__ import annotations
