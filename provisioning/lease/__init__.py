"""Leases: nodes held for disruptive work, proven idle, and given back whatever happens. `check.leased` holds
nodes, `take.take` and `take.give_back` are its halves, `runlock.alone` lets one process act."""
