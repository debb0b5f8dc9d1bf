"""The evidence of linked programs and libraries: what they import, define and hold."""
