"""Registrations as LLVM IR, equal in structure to what llvm-offload-wrapper writes."""
