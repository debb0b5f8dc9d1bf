"""Pointers in programs and objects, followed as their host stores them: ELF, COFF, PE."""
