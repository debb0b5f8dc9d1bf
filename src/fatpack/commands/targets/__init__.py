"""The command ``targets``: names of GPU targets, explained."""
