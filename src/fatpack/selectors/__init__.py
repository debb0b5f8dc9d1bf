"""Selection of containers and images: addresses, selectors, bundle IDs."""
