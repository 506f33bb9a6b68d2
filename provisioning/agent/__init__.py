"""Puts the agent on nodes: what is sent, where it lies there, and what starts it."""
