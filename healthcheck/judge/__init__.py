"""Facts and rules to results: `judge.judge` for one node, `fleetjudge.judge_fleet` for comparisons between
nodes, `nodereport` for a node's report.
"""
