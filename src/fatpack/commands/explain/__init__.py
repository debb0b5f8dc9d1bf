"""The command ``explain``: images that a device's runtime would load, the rule for each, and fixes if none fits."""
