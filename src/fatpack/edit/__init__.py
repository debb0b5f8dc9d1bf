"""Embedding and replacing containers and images in hosts, archives and bare files."""
