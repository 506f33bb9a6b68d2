"""Sayings by the name under which this package had them; they are in `healthcheck.joblog.sayings`, where `muster blame` reads them, too."""

from __future__ import annotations

from healthcheck.joblog.meaning import Accused
from healthcheck.joblog.sayings import Found, Saying, find

__all__ = ["Accused", "Found", "Saying", "find"]
