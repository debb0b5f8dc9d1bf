"""The inputs of device links: device images of the objects and archives on a link line, grouped by target."""

from __future__ import annotations
