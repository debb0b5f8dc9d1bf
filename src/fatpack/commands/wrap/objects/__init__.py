"""Registrations as relocatable objects: sections, symbols and places for the linker, written as ELF or COFF."""
