"""The words by which a cordon shows that triage made it, so that a store that has lost the cordon finds out
whose it is.

    muster:7f3a#12: triage/3f1c: gpu-count: 7 (expected 8)

The four digits are of a hash of the words behind them: those that a person has edited are a person's.
"""

from __future__ import annotations

import hashlib
import re

from healthcheck.model.verdict import RMA, Verdict
from healthcheck.store.accused import lasts
from inventory.text import clean
from provisioning.actions.base import unappended

_FORM = re.compile(r"triage/([0-9a-f]{4}): (.+)", re.DOTALL)
# With mark and digits below what a back end keeps: words that were cut are no one's for certain.
_MOST = 150


def words_of(why: str, verdict: Verdict) -> str:
    """The words of a cordon of triage. Where sweeps alone cannot show that a node is well again (a burn-in, a
    kernel's log or an RMA holds it, and a store that is lost takes what is known of that along), they are as
    they come, and after such a loss the cordon is a person's."""
    problems = [problem for fault in verdict.faults for problem in fault.problems]
    if verdict.fault == RMA or any(fault.kind.lasting for fault in verdict.faults) or any(
            one.ends or lasts(one.rule) for one in problems):
        return why
    text = clean(" ".join(why.split()), _MOST)
    return f"triage/{_digits(text)}: {text}"


def is_of_triage(words: str) -> bool:
    """Whether the words behind a mark are those of triage, and no one has edited them."""
    found = _FORM.fullmatch(" ".join(unappended(words).split()))
    return found is not None and _digits(found[2]) == found[1]


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:4]
