"""Runs a policy over stored history, and compares what triage would have done with what was done."""
