"""Contents of a CIR file, text or bytecode: its modules, their roles, symbols and operations."""
