"""Kernel logs: who wrote a line (`provenance`), what of it a user chose (`quoting`), how its fault ends."""
