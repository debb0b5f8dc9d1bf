"""What the machine and its system offer: files by descriptor, requests to stop, threads and processes on all cores."""
