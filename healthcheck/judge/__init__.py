"""Facts and rules to results: `judge.judge` for a node, `fleetjudge` for what nodes are compared in, `nodereport` for what it comes to."""
