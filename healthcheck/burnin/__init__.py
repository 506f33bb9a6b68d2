"""Burn-in: the last gate before training.

It measures GPUs, nodes and the paths between them, and names who is guilty.
"""
