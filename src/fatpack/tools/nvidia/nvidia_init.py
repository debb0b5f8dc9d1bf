"""Stand-ins for tools of NVIDIA's toolkit: one module or folder per tool, and the command line that they share."""
