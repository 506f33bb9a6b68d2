"""Burn-in: the last test before training. It measures GPUs, nodes and paths, and names what is faulty."""
