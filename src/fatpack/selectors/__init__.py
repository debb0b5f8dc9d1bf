"""Selection of containers, images and kernels: addresses, selectors, bundle IDs, profiles of recorded runs."""
