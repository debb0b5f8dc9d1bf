"""What :mod:`fatpack.answers` says, as plain data and as text: one module per answer."""
