"""Runs a burn-in: which stages in which order, how power rises, over which ports, under a lease, and what is
kept of it. `request.asked` gathers what is to be done, `run.run` does it, `screening.choose` picks idle
nodes."""
