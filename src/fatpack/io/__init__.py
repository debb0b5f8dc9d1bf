"""Where bytes come from and go to: the only package that opens files."""
