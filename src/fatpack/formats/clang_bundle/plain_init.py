"""Bundles that are not compressed: binary and text, and the table of entries both have."""
