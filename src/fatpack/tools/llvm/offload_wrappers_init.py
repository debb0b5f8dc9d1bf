"""``fatpack tool llvm-offload-wrapper`` and ``clang-offload-wrapper``: LLVM IR that registers device images."""
