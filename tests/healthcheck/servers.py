"""The SKU of the servers that the hand-made machine is one of, as a site gives it: HGX H100, with what the
board does not say."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.ruleset.ruleset import Ruleset

SITE = "site-h100"
PARENT = "hgx-h100"
OURS = {"memory_gib": 2048, "docker": True}


def with_site(ruleset: Ruleset) -> Ruleset:
    """The ruleset, which knows that SKU too."""
    board = ruleset.skus[PARENT]
    return replace(ruleset,
                   skus={**ruleset.skus, SITE: replace(board, name=SITE, numbers={**board.numbers, **OURS})})
