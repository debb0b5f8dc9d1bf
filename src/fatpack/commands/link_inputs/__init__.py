"""What a device link gets: device images of objects and archives on a link line, grouped by target."""

from __future__ import annotations
