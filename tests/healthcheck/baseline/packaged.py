"""The catalogue of known faults that muster comes with."""

from __future__ import annotations

from healthcheck.baseline.catalogue import Catalogue
from tests import packagedrules


def catalogue() -> Catalogue:
    assert packagedrules.RULES.kernel is not None
    return packagedrules.RULES.kernel.catalogue
