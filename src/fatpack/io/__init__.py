"""Kinds of sources: files, memory, ranges of objects and URLs, inflated and streamed content."""

from __future__ import annotations
