"""Reads nodes and decides about them; changes nothing."""
