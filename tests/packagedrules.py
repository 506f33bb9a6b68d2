"""The packaged rules, loaded once for all tests of a process: loading takes a fifth of a second."""

from __future__ import annotations

from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset

RULES: Ruleset = load_ruleset([packaged()])
