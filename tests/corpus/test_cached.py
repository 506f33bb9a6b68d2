"""Facts that were met before change no report: every recorded snapshot and fleet is judged with the cache of
facts as without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.model.recording import SCHEMA, Recording, read
from healthcheck.sweep import saved
from healthcheck.sweep.assess import Assessed, Assessment
from inventory.model import Node
from tests.corpus.archives import Unpacked
from tests.corpus.files import RECORDINGS
from tests.corpus.test_fleets import OLD
from tests.packagedrules import RULES


def assessed(folder: Path, *, cached: bool) -> Assessed:
    """The saved sweep, judged by the packaged rules."""
    manifest = saved.load_manifest(folder)
    assessment = Assessment(manifest.nodes, RULES, manifest.default_sku, saved.sent_probes(manifest),
                            manifest.profiles, cached=cached)
    for now, before in saved.recordings(folder, manifest):
        assessment.add(now, before)
    return assessment.finish(withheld=manifest.withheld)


def recorded() -> list[Recording]:
    """Every snapshot of a node below tests/recordings, the earlier ones too."""
    texts = [path.read_bytes() for path in sorted(RECORDINGS.rglob("*.json"))]
    return [read(text) for text in texts if f'"schema":"{SCHEMA}"' in text.decode().replace(" ", "")]


@pytest.mark.parametrize("name", [*OLD, "demo-1"])
def test_a_saved_sweep_has_the_same_reports_with_the_cache_and_without(name: str, unpacked: Unpacked) -> None:
    folder = OLD[name] if name in OLD else unpacked(name)
    with_cache = assessed(folder, cached=True)
    assert with_cache.reports and with_cache == assessed(folder, cached=False)


@pytest.mark.parametrize("sku", [None, "hgx-h100"])
def test_every_recorded_snapshot_has_the_same_report_with_the_cache_and_without(sku: str | None) -> None:
    found = recorded()
    assert len(found) > 7
    nodes = [Node(name) for name in dict.fromkeys(look.node for look in found)]
    reports: dict[bool, list[Assessed]] = {True: [], False: []}
    for cached, of in reports.items():
        assessment = Assessment(nodes, RULES, sku, cached=cached)
        for look in found:      # several of one node: what was met in one must not stand for the next
            assessment.add(look, look)
            of.append(assessment.finish())
    assert reports[True] == reports[False]
