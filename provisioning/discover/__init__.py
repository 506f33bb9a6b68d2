"""Finds management controllers and says what does not fit delivery list, inventory and snapshots. Entry
points: `ask.sweep` asks a range of addresses, `compare.compare` says what does not fit, `entries.entries`
drafts the inventory."""
