"""Changing an ELF file: what stands in the way, where new bytes go, the rewritten tables and their check."""
