"""Since when things are as they are: what sweeps note of rules, SKUs, muster and nodes' drivers,
and what triage reads of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Finding, NodeReport, Result, Severity, Status, state_of
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.file import Store
from healthcheck.store.readings import NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.telemetry import Telemetry
from healthcheck.store.versions import Version, VersionSpan, history
from healthcheck.triage.gather import changes
from healthcheck.triage.judgedby import judged_by

BEGIN = 1_700_000_000.0


def sweep(
    store: Store, time: float, versions: dict[str, str], nodes: int = 4, *, driver: str = "570",
    skipped: tuple[str, ...] = (), failing: tuple[str, ...] = (),
) -> None:
    """One at `time`, seconds after the beginning, by rules with these digests;
    the kind of each is before its dot."""
    made = tuple(Version(*name.partition(".")[::2], digest) for name, digest in versions.items())
    rules = [one.name for one in made if one.kind == "rule"]
    reports = []
    for number in range(nodes):
        results = tuple(Result(rule, rule.replace("-", "."),
                               Status.SKIPPED if rule in skipped else Status.FAIL if rule in failing
                               else Status.PASS, Severity.CRITICAL,
                               (Finding(7, 8, ""),) if rule in failing else ()) for rule in rules)
        reports.append(NodeReport(f"n{number}", state_of(results), "", results))
    shown = {one.node: NodeReadings((), (), frozenset(), "boot", Telemetry(driver=driver, kernel="6.8"))
             for one in reports}
    record(store, SweepRecord(BEGIN + time, BEGIN + time + 1, False, "test", "digest", versions=made,
                              who="op"), reports, shown)


def held(store: Store, since: float, now: float = BEGIN + 1e6) -> list[VersionSpan]:
    return [replace(one, after=None) for one in history(store, since) if one.holds(now)]


def rows(store: Store) -> list[tuple[str, str, str, float, float]]:
    return [(*row[:3], row[3] - BEGIN, row[4] - BEGIN)
            for row in store.rows("SELECT kind, name, digest, began, seen FROM version ORDER BY id")]


def test_what_stays_as_it_is_is_one_row_and_what_changes_another(store: Store) -> None:
    for time, digest in ((0, "a"), (300, "a"), (600, "b"), (900, "b"), (1200, "a")):
        sweep(store, time, {"rule.gpu-count": digest, "muster.muster": "0.1"})
    assert sorted(rows(store)) == [("muster", "muster", "0.1", 0, 1200), ("rule", "gpu-count", "a", 0, 300),
                                   ("rule", "gpu-count", "a", 1200, 1200),
                                   ("rule", "gpu-count", "b", 600, 900)]
    assert held(store, BEGIN) == [VersionSpan("rule", "gpu-count", "a", BEGIN + 1200, BEGIN + 900, was="b")]
    assert held(store, BEGIN, BEGIN + 1000) == [
        VersionSpan("rule", "gpu-count", "b", BEGIN + 600, BEGIN + 300, was="a")]
    assert {row[0] for row in store.rows("SELECT who FROM version")} == {"op"}


def test_the_first_sweep_of_a_store_changes_nothing_and_a_rule_that_comes_later_is_new(store: Store) -> None:
    sweep(store, 0, {"rule.gpu-count": "a", "sku.h100": "a", "muster.muster": "0.1"})
    assert held(store, 0) == []
    sweep(store, 300, {"rule.gpu-count": "a", "rule.port-state": "a", "sku.h100": "a",
                       "muster.muster": "0.1"})
    assert held(store, 0) == [VersionSpan("rule", "port-state", "a", BEGIN + 300, None)]


def test_a_rule_that_a_sweep_did_not_judge_is_as_it_was(store: Store) -> None:
    sweep(store, 0, {"rule.gpu-count": "a", "rule.port-state": "a"})
    sweep(store, 300, {"rule.gpu-count": "b", "rule.port-state": "b"}, skipped=("port-state",))
    assert [(one.name, one.digest) for one in held(store, 0)] == [("gpu-count", "b")]


def test_an_older_sweep_that_is_stored_late_changes_nothing(store: Store) -> None:
    sweep(store, 600, {"rule.gpu-count": "b"})
    sweep(store, 0, {"rule.gpu-count": "a"})
    assert rows(store) == [("rule", "gpu-count", "b", 600, 600)]


def test_a_sweep_that_says_nothing_of_its_rules_notes_nothing(store: Store) -> None:
    sweep(store, 0, {})
    assert rows(store) == []


def test_a_node_with_another_driver_is_noted_with_when_it_was_seen_last_with_the_one_before(
    store: Store,
) -> None:
    for time, driver in ((0, "570"), (300, "570"), (600, "580"), (900, "580"), (1200, "590")):
        sweep(store, time, {}, 1, driver=driver)
    assert held(store, 0) == [VersionSpan("driver", "n0", "590", BEGIN + 1200, BEGIN + 900, was="580")]
    assert rows(store) == [("driver", "n0", "570", 300, 300), ("driver", "n0", "580", 600, 900),
                           ("driver", "n0", "590", 1200, 1200)]
    sweep(store, 1500, {}, 1, driver="")        # nothing was read of it: it is as it was
    sweep(store, 1800, {}, 1, driver="590")
    assert len(rows(store)) == 3


def test_what_a_change_brings_shows_until_the_second_sweep_of_most_nodes(store: Store) -> None:
    sweep(store, 0, {"rule.gpu-count": "a"})
    sweep(store, 300, {"rule.gpu-count": "b"}, nodes=1)
    assert [one.until for one in changes(store, 0, BEGIN + 300)] == [float("inf")]
    for time in (600, 900, 1200):
        sweep(store, time, {"rule.gpu-count": "b"})
    (one,) = changes(store, 0, BEGIN + 2000)
    assert (one.began, one.before, one.until) == (BEGIN + 300, BEGIN, BEGIN + 900)
    assert changes(store, BEGIN + 400, BEGIN + 2000) == []


def test_a_digest_of_a_rule_or_a_sku_changes_with_what_can_change_a_result_alone(tmp_path: Path) -> None:
    def made(text: str) -> dict[tuple[str, str], str]:
        (tmp_path / "site.yaml").write_text(text)
        return {(one.kind, one.name): one.digest
                for one in judged_by(load_ruleset([packaged(), tmp_path]), "0.1")}

    plain = made("[]")
    # Were it another, all rules would seem to have changed to a store that there is.
    assert {len(digest) for (kind, _), digest in plain.items() if kind in ("rule", "sku")} == {16}
    assert made("- {id: gpu-ecc-uncorrected, remedy: Other words.}") == plain
    other = made("- {id: gpu-ecc-uncorrected, with: {allow: 7}}")
    assert {key for key in plain if plain[key] != other[key]} == {("rule", "gpu-ecc-uncorrected")}
    (tmp_path / "sku").mkdir()
    (tmp_path / "sku" / "ours.yaml").write_text(
        "sku: ours\ntitle: Ours\nsource: x\nnumbers: {gpu_count: 7}\n")
    assert {key for key in made("[]") if key not in plain} == {("sku", "ours")}
    (tmp_path / "kernel").mkdir()
    (tmp_path / "xid.yaml").write_text((packaged() / "xid.yaml").read_text() + "# the site's own\n")
    assert {key for key, digest in made("[]").items() if plain.get(key, digest) != digest} == {
        ("baseline", "xid.yaml")}
    assert ("muster", "muster") in plain and any(kind == "baseline" for kind, _ in plain)
