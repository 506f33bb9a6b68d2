"""Triage: from what the store remembers to a decision that an operator would sign. Pure: nothing here reads a file or a clock."""
