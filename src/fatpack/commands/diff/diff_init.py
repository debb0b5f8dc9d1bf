"""What differs between two releases: libraries, images, kernels and their sizes."""
