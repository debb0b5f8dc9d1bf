"""Encodings that formats of others use inside: LLVM's bitstream and MessagePack."""
