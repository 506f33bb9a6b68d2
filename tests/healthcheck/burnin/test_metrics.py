"""Metrics: each node's newest burn-in, in base units; unreadable files are counted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from healthcheck.burnin.document import kept, write
from healthcheck.burnin.metrics import FAMILIES, Burnins, here, samples, summary
from healthcheck.exporter.page import Page
from healthcheck.exporter.stored import Nodes, StoreSource
from healthcheck.model.exposition import Sample, grouped, text_of
from healthcheck.store.file import opened
from tests.healthcheck.burnin.faulty import faulty
from tests.healthcheck.burnin.made import burnin, places, sound

DAYS = 30.0


def text(found: Iterable[Sample]) -> str:
    """As Prometheus reads it."""
    return text_of(grouped(found).items())


def series(text: str) -> dict[tuple[str, ...], float]:
    """Value by name and the values of labels, in the order of their names."""
    return {(sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}


def test_each_node_says_how_its_burn_in_ended_and_what_it_reached_in_base_units() -> None:
    found = series(text(samples([summary(burnin())], DAYS)))
    assert found["muster_burnin_outcome", "gpu003", "pass"] == 1
    assert found["muster_burnin_busbw_bytes_per_second", "gpu003", "node"] == pytest.approx(472e9, rel=0.01)
    assert found["muster_burnin_busbw_bytes_per_second", "gpu003",
                 "leaf-pairs"] == pytest.approx(371e9, rel=0.01)
    assert found["muster_burnin_gemm_flops_per_second", "gpu003", "bf16"] == pytest.approx(716e12, rel=0.01)
    assert found["muster_burnin_stage_done", "gpu003", "all"] == 1
    assert found["muster_burnin_finished_timestamp_seconds", "gpu003"] == 1795317000
    assert (found["muster_burnin_wrong_elements",] == 0
            and found["muster_burnin_stale_after_seconds",] == 30 * 86400)


def test_who_is_accused_of_what_is_reported_by_node() -> None:
    found = series(text(samples([summary(faulty())], None)))
    assert (found["muster_burnin_accusations", "wrong data", "gpu002"] == 1
            and found["muster_burnin_outcome", "gpu002", "fail"] == 1)
    assert found["muster_burnin_accusations", "counted errors", "gpu008"] == 1
    # a pair
    assert found["muster_burnin_wrong_elements",] == 17 and found["muster_burnin_unexplained",] == 1
    assert (found["muster_burnin_stage_done", "gpu001", "all"] == 0
            and ("muster_burnin_stale_after_seconds",) not in found)


def test_a_node_keeps_its_own_newest_burn_in_when_others_are_run_again() -> None:
    one = places(1)
    again = burnin(one, sound(one, pairs=False), run="again", began=1795400000.0)
    found = series(text(samples([summary(again), summary(faulty())], DAYS)))
    assert found["muster_burnin_finished_timestamp_seconds", "gpu001"] == 1795400600
    assert (found["muster_burnin_outcome", "gpu002", "fail"] == 1
            and found["muster_burnin_finished_timestamp_seconds", "gpu002"] == 1795317000)


def test_the_exporters_page_has_them_and_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    with opened(tmp_path, make=True):
        pass
    source = StoreSource(tmp_path, Nodes(None), here(tmp_path))
    fleet = source.read(2000.0)
    assert fleet is not None and fleet.more == ()
    assert source.read(2001.0) is None
    path = write(tmp_path, faulty())
    fleet = source.read(2002.0)
    assert fleet is not None
    found = series(text_of(Page(3600).make(fleet, 2002.0)))
    assert (found["muster_burnin_outcome", "gpu002", "fail"] == 1
            and found["muster_burnin_unreadable_documents",] == 0)
    path.write_text("{")
    os.utime(path, ns=(5, 5))
    again = source.read(2003.0)
    assert (again is not None
            and series(text_of(Page(3600).make(again, 2003.0)))["muster_burnin_unreadable_documents",] == 1)


def test_a_document_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from healthcheck.burnin import documentread

    read: list[Path] = []
    monkeypatch.setattr(documentread, "load", lambda path: read.append(path) or burnin())
    burnins = Burnins(tmp_path, DAYS)
    write(tmp_path, burnin())
    assert burnins.again() and not burnins.again()
    write(tmp_path, burnin(run="second"))
    assert burnins.again() and len(read) == 2


def test_a_burn_in_that_is_under_way_hides_no_result(tmp_path: Path) -> None:
    burnins = Burnins(tmp_path, DAYS)
    write(tmp_path, faulty())
    write(tmp_path, replace(burnin(run="later", began=1795400000.0),
                            options={"finished": False, "nodes": '"finished":true'}))
    assert burnins.again() and not burnins.again()
    found = series(text(burnins.samples))
    assert found["muster_burnin_finished_timestamp_seconds", "gpu003"] == 1795317000
    write(tmp_path, replace(burnin(run="later", began=1795400000.0),
                            options={"finished": True, "nodes": '"finished":false'}))
    assert burnins.again() and series(text(burnins.samples))["muster_burnin_finished_timestamp_seconds",
                                                                "gpu003"] == 1795400600


def test_without_burn_ins_there_is_no_series() -> None:
    assert [family for family, _ in samples([], None)] == [FAMILIES[-1]]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_are_as_prometheus_asks(family: object) -> None:
    name = family.name  # type: ignore[attr-defined]
    assert name.startswith("muster_burnin_") and not name.endswith(("_total", "_ms", "_gb", "_mhz"))


def test_a_screening_does_not_stand_before_the_burn_in_of_its_nodes(tmp_path: Path) -> None:
    write(tmp_path, burnin())
    for number in range(8):
        write(tmp_path, replace(burnin(run=f"later-{number}-screen", began=1795400000.0), length="screen"))
    burnins = Burnins(tmp_path, DAYS)
    assert burnins.again()
    assert series(text(burnins.samples))["muster_burnin_finished_timestamp_seconds",
                                            "gpu003"] == 1795317000
    assert len(kept(tmp_path)) == 9 and len(kept(tmp_path, screenings=False)) == 1
