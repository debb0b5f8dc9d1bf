"""The evidence of objects: by their symbols and relocations alone, with few instructions decoded."""
