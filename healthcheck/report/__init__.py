"""How results are shown: table, JSON, JSON lines, progress."""
