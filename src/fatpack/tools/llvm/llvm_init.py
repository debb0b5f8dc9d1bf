"""Stand-ins for tools of LLVM and clang: one module or folder per tool, and the command line that they share."""
