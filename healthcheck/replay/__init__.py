"""Runs a policy over stored history: what triage would have done, beside what was done."""
