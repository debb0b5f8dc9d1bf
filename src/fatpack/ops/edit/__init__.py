"""Embedding, replacing and removing containers in hosts, archives and bare files."""
