"""The commands, one module each, of the name that users type."""
