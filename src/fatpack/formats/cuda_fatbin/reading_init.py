"""Bytes to model: areas, groups and entries of a fat binary, inflated where they are compressed."""
