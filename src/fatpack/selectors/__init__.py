"""Which containers and images are meant: addresses, selectors, bundle IDs."""
