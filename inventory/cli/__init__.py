"""The `muster inventory` commands."""
