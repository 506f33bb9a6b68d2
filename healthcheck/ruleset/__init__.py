"""Rules, SKUs, profiles and port plans, read from YAML: `rulesetload.load` gives a `Ruleset`."""
