"""The commands that answer questions about files, beside what is in them."""

from __future__ import annotations
