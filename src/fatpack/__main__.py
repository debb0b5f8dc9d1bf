"""``python -m fatpack``: the command, if no script is on the path."""

from __future__ import annotations

import sys

from fatpack.main import main

sys.exit(main())
