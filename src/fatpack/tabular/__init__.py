"""Facts of files as flat rows, one per image or per kernel: what surveys, tables and answers are made of."""

from __future__ import annotations
