"""Finds management controllers and says what does not fit delivery list, inventory and snapshots. Entry
points: `ask.sweep` asks addresses, `compare.compare` compares, `entries.entries` drafts the inventory."""
