"""Flat rows about files, one per image or kernel: the input of ``check``, ``explain``, ``report`` and ``survey``."""

from __future__ import annotations

#: The version of the columns, in the metadata of Parquet files.
SCHEMA = "fatpack.rows/1"

#: File formats for rows.
FORMATS = ("jsonl", "csv", "parquet")

#: Subjects of rows.
SUBJECTS = ("images", "kernels")
