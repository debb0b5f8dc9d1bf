"""Flat rows about files, one per image or kernel: the input of ``check``, ``explain``, ``report`` and ``survey``."""

from __future__ import annotations

from fatpack.binary.section_names import CUDA_RELOCATABLE, OFFLOADING_RELOCATABLE, with_cut

#: The version of the columns, in the metadata of Parquet files.
SCHEMA = "fatpack.rows/1"

#: File formats for rows.
FORMATS = ("jsonl", "csv", "parquet")

#: Subjects of rows.
SUBJECTS = ("images", "kernels")

#: Sections of objects with code for the device link; PE images truncate names. Sections of clang-offload-bundler are
#: not included: a fat object has one per image, and DPC++ leaves the result of its link in such a section of a program.
DEVICE_LINK_SECTIONS = (*with_cut(CUDA_RELOCATABLE), OFFLOADING_RELOCATABLE)
