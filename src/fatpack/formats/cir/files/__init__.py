"""Modules split into files: the definitions that a module uses, and its text or bytecode with them."""
