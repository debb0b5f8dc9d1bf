"""Bundles in object files: one section per target, and bundles that a linker put side by side."""
