"""Flat rows about files, one per image or kernel: the input of ``check``, ``explain``, ``report`` and ``survey``."""

from __future__ import annotations
