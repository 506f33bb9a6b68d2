"""Installs the agent, on a node as root: standard library, Python 3.8, one text (`collector.joined`)."""
