"""Checks: pure functions from facts to findings, one module per subject."""
