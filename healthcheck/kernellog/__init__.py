"""Kernel logs: who wrote a line, which parts of it a user chose, and how what it reports ends; see `provenance` and `quoting`."""
