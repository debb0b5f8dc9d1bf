"""Compressed bundles (CCOB): header, content, digest, and where the compressed data ends."""
