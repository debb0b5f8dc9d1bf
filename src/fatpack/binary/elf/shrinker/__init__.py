"""Removing loaded device code from linked ELF files: possible cuts, segments, program headers, and pointers."""
