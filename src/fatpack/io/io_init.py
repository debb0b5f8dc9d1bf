"""Where bytes come from and go to: the only package that opens inputs and writes outputs."""
