"""Finds the Grafana dashboard, in a checkout or an installed wheel. Its queries read the exporter's metrics,
and what the rules of `healthcheck.exporter.alerts` record."""

from __future__ import annotations

from pathlib import Path

from healthcheck.config.rulesfolder import packaged


def file() -> Path:
    """The dashboard's JSON, as Grafana imports it."""
    return packaged() / "grafana" / "fleet.json"
