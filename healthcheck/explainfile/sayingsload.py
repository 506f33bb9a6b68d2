"""The reader of sayings by the name under which this package had it; it is in `healthcheck.joblog.sayingsload`."""

from __future__ import annotations

from healthcheck.joblog.sayingsload import load_sayings

__all__ = ["load_sayings"]
