"""Triage: from what the store remembers to a decision that an operator would sign. Pure: nothing here reads a
clock, and nothing but `policyload` a file."""
