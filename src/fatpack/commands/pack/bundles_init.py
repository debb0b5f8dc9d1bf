"""Bundles that are more than a file of their own: fat objects, and archives of bundles."""
