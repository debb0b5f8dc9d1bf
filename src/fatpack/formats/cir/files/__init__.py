"""The files that modules of a container become: what they use of it, and their text or bytecode with that."""
