"""Proves a change on a canary before it spreads: what stood, what stands now, and what got worse by it.

Entry points: `standing.of_sweep` and `of_store` read, `judge.judge` compares, `keep` stores the record.
"""
