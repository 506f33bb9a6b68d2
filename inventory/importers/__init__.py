"""Reads the inventories of other programs, as data, into muster's own keys."""
