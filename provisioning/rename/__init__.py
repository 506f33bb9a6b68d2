"""Gives a node another name in all that muster keeps, and takes its cordons along: `run.rename`."""
