"""Rules, SKUs, profiles and port plans, read from YAML: `rulesetload.load` returns a `Ruleset`."""
