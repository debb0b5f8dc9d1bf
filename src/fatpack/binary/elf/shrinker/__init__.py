"""Taking loaded device code out of linked ELF files: what may go, how segments are split, where pointers are held."""
