"""Operating system interfaces: files by descriptor, signals, and parallel work in threads and processes."""
