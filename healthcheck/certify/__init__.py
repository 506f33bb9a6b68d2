"""Signed certificates of burn-in for a node's hardware; reading them needs no compiled package."""
