"""Syntax of the text of an MLIR file: windows over it, strings, comments, headers, definitions, bodies."""
