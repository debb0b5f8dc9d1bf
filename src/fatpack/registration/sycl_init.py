"""Images that linked SYCL and OpenMP programs describe in tables."""
