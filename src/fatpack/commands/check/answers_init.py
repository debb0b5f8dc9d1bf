"""What :mod:`fatpack.commands.check` says, as plain data and as text: one module per answer."""
