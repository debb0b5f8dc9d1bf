"""The promises of a release, and the steps to it."""
