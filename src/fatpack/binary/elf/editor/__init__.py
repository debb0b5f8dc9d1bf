"""Editing ELF files: adding, replacing and removing sections, and verification of the result."""
