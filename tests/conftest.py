"""How many examples hypothesis tries of a property: few by default, and in CI as many as ``FATPACK_EXAMPLES`` says."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fatpack", deadline=None, max_examples=int(os.environ.get("FATPACK_EXAMPLES", "25")))
settings.load_profile("fatpack")
