"""Containers of one format to containers of another."""
