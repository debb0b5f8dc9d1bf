"""What is in a CIR file, text or bytecode: its modules, their roles, symbols and contents."""
