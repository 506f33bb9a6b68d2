"""Finds management controllers and says what does not fit: with the delivery list, with the inventory, with
what was checked before.

Entry points: `ask.sweep` asks a range of addresses, `compare.compare` says what does not fit,
`entries.entries` drafts the inventory.
"""
