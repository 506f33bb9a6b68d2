"""The store: one SQLite file on the head node that remembers sweeps,
what was wrong with which node and since when, and components."""
