"""Records that register fat binaries with CUDA's and HIP's runtimes."""
