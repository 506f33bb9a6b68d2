"""Facts and rules to results: `judge.judge` for one node, `fleetjudge` across nodes, then `nodereport`."""
