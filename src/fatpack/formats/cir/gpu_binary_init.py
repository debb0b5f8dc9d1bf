"""Finished device binaries that host modules embed, and the kernels they register."""
