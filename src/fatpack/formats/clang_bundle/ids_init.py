"""The names of bundle entries: bundle IDs, LLVM triples and their vocabulary, names of archive members."""
