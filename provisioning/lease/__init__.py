"""Leases: nodes held for disruptive work, proven idle, and given back whatever happens."""
