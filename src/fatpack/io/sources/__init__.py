"""Kinds of sources: files, memory, inflated and streamed content."""
