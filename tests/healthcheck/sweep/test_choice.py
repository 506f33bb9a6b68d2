"""Which nodes are visited, by what is known of each: all that nothing lets us leave out, a sample, and each
once a day."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.agentmetric import HEALTHY, PERIOD, RUN_INFO, RUN_TIME
from healthcheck.store.leftout import KnownNode
from healthcheck.sweep.agentseries import claims
from healthcheck.sweep.fromagents import (
    VISIT_S,
    HeadBasis,
    SweepChoice,
    Visit,
    WantedNode,
    choose,
    line,
    visit_all,
)
from healthcheck.sweep.prometheus import PrometheusError

NOW = 1_795_000_000.0
HEAD = HeadBasis("1.0", "r" * 64, "timer", NOW, NOW - 300)
NODE = WantedNode("n1", "hgx-h100", "e1")
KNOWN = KnownNode("boot-n1", NOW - 600, healthy=True)


class NoSample(random.Random):
    """Draws no one."""

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:
        return []


def series(name: str = "n1", at: float = NOW - 100, target: str = "", period: str = "300",
           **labels: str) -> list[dict[str, Any]]:
    """What Prometheus has of one node."""
    beside = {"job": "node", "instance": target or f"{name}:9100", "node": name}
    info = {"boot_id": f"boot-{name}", "entry": "e1", "profile": "timer", "rules": "r" * 64,
            "sku": "hgx-h100", "version": "1.0", **labels}
    return [{"metric": {"__name__": HEALTHY.name, **beside}, "value": [NOW, "1"]},
            {"metric": {"__name__": RUN_TIME.name, **beside}, "value": [NOW, repr(at)]},
            {"metric": {"__name__": PERIOD.name, **beside}, "value": [NOW, period]},
            {"metric": {"__name__": RUN_INFO.name, **beside, **info}, "value": [NOW, "1"]}]


def answer(found: Any, **more: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": found},
                       **more}).encode()


def chosen(found: Any, known: KnownNode = KNOWN, head: HeadBasis = HEAD,
           node: WantedNode = NODE) -> Visit | None:
    """Why the node is visited; None where it is left out."""
    choice = choose([node], claims(answer(found), {node.name}), {node.name: known}, head, NoSample())
    assert (node.name in choice.visits) is not (node.name in choice.left_out)
    return choice.visits.get(node.name)


def without(name: str) -> list[dict[str, Any]]:
    return [one for one in series() if one["metric"]["__name__"] != name]


def valued(name: str, value: Any) -> list[dict[str, Any]]:
    return [{**one, "value": value} if one["metric"]["__name__"] == name else one for one in series()]


def test_a_node_is_left_out_by_all_of_its_evidence_together() -> None:
    choice = choose([NODE], claims(answer(series()), {"n1"}), {"n1": KNOWN}, HEAD, NoSample())
    (evidence,) = choice.left_out.values()
    assert (evidence.at, evidence.target, evidence.basis.boot_id) == (NOW - 100, "node n1:9100",
                                                                      "boot-n1") and choice.visits == {}


@pytest.mark.parametrize(("found", "expected"), [
    ([], Visit.NO_AGENT), (series("n2"), Visit.NO_AGENT),
    *((without(name), Visit.INCOMPLETE)
      for name in (HEALTHY.name, RUN_TIME.name, PERIOD.name, RUN_INFO.name)),
    (series() + series(target="other:9100"), Visit.CLAIMED), (series() + series(at=NOW), Visit.CLAIMED),
    (series() + [one for one in series(target="n2:9100") if one["metric"]["__name__"] == RUN_INFO.name],
     Visit.CLAIMED),
    (without(RUN_INFO.name) + [one for one in series(target="n2:9100")
                               if one["metric"]["__name__"] == RUN_INFO.name], Visit.CLAIMED),
    *((valued(name, [NOW, value]), Visit.NO_NUMBER) for name in (HEALTHY.name, RUN_TIME.name, PERIOD.name)
      for value in ("NaN", "+Inf", "-Inf", "", "one", 1, None, "1_0", "٣", "9" * 400)),
    *((valued(RUN_TIME.name, value), Visit.NO_NUMBER) for value in (None, [], "x", [NOW], [NOW, "1", "2"])),
    *((valued(HEALTHY.name, [NOW, value]), Visit.SICK) for value in ("0", "2", "-1", "0.999")),
    (series(at=NOW + 3), Visit.FUTURE), (series(at=NOW + 86400), Visit.FUTURE),
    (series(at=1e300), Visit.FUTURE),
    (series(at=NOW - 601), Visit.STALE), (series(at=0), Visit.STALE),
    (series(at=NOW - 30, period="10"), Visit.STALE),
    (series(period="86400", at=NOW - 3601), Visit.STALE),
    *((series(period=period), Visit.STALE) for period in ("0", "-300", "9", "86401", "1e9")),
    (series(boot_id="boot-n1x"), Visit.BOOTED), (series(boot_id="-"), Visit.BOOT_UNKNOWN),
    (series(boot_id=""), Visit.BOOT_UNKNOWN),
    (series(version="1.1"), Visit.VERSION), (series(version="-"), Visit.VERSION),
    (series(rules="r" * 63), Visit.RULES),
    (series(sku="hgx-h200"), Visit.SKU), (series(sku="-"), Visit.SKU),
    (series(profile="gate"), Visit.PROFILE), (series(entry="e2"), Visit.ENTRY),
])
def test_whatever_is_wrong_with_its_metrics_the_node_is_visited(found: Any, expected: Visit) -> None:
    assert chosen(found) is expected


@pytest.mark.parametrize(("known", "expected"), [
    (KnownNode(), Visit.BOOT_UNKNOWN), (replace(KNOWN, boot_id="boot-0"), Visit.BOOTED),
    (replace(KNOWN, healthy=False), Visit.NOT_HEALTHY),
    (replace(KNOWN, visited=None), Visit.NOT_HEALTHY), (replace(KNOWN, held=True), Visit.HELD),
    (replace(KNOWN, visited=NOW - VISIT_S), Visit.DUE),
    (replace(KNOWN, visited=NOW + 60), Visit.DUE),
])
def test_what_the_head_itself_knows_counts_before_what_the_agent_says(known: KnownNode,
                                                                      expected: Visit) -> None:
    assert chosen(series(), known) is expected


def test_a_node_of_no_sku_is_visited_as_the_majority_says_what_it_should_be() -> None:
    assert chosen(series(), node=replace(NODE, sku="")) is Visit.NO_SKU


def test_the_users_greatest_age_counts_for_two_periods() -> None:
    assert chosen(series(at=NOW - 7000), head=replace(HEAD, most_age=7200)) is None
    assert chosen(series(at=NOW - 100), head=replace(HEAD, most_age=60)) is Visit.STALE


def test_labels_of_a_target_do_not_hide_or_replace_those_of_the_agent() -> None:
    def relabelled(node: str, **target: str) -> list[dict[str, Any]]:
        found = []
        for one in series():
            labels = dict(one["metric"])
            moved = {f"exported_{name}": labels.pop(name) for name in ("node", *target) if name in labels}
            found.append({**one, "metric": {**labels, **moved, "node": node, **target}})
        return found

    assert chosen(relabelled("n1", sku="cpu-only", rack="r1")) is None
    assert chosen(relabelled("n2")) is Visit.MISPLACED


def test_a_node_that_claims_another_ones_name_has_both_visited_whichever_of_them_answers() -> None:
    pair = [NODE, WantedNode("n2", "hgx-h100", "e1")]
    known = {"n1": KNOWN, "n2": KnownNode("boot-n2", NOW - 600, healthy=True)}
    liar = series("n2", target="n1:9100", boot_id="boot-n1")
    for found in (liar, liar + series("n2")):
        assert set(choose(pair, claims(answer(found), {"n1", "n2"}), known, HEAD,
                          NoSample()).visits) == {"n1", "n2"}


TEXT = st.text("aNn1-\x1bé\ud800",
               max_size=6) | st.sampled_from(["1", "NaN", "n1", "n2", HEALTHY.name, RUN_INFO.name, "-"])
VALUE = st.none() | st.booleans() | TEXT | st.lists(TEXT | st.floats(), max_size=3)
LABELS = st.sampled_from(["__name__", "node", "exported_node", "boot_id", "exported_boot_id", "instance",
                          "job", "sku", "x"])


@given(data=st.data())
def test_only_the_four_series_of_a_healthy_agent_leave_its_node_out_whatever_else_is_there(
        data: st.DataObject) -> None:
    good = series()
    found: list[Any] = [*good, *series("n2")]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(found) - 1))
        change = data.draw(st.sampled_from(["drop", "twice", "label", "value", "junk"]))
        if change == "drop":
            del found[at]
        elif change == "twice":
            found.append(found[at])
        elif change == "junk":
            found[at] = data.draw(VALUE | st.dictionaries(st.sampled_from(["metric", "value"]),
                                                          VALUE | st.dictionaries(LABELS, VALUE, max_size=3)))
        elif isinstance(found[at], dict) and isinstance(found[at].get("metric"), dict):
            labels = dict(found[at]["metric"])
            if change == "label":
                labels[data.draw(LABELS)] = data.draw(VALUE)
                found[at] = {**found[at], "metric": labels}
            else:
                found[at] = {**found[at], "value": data.draw(VALUE)}
    nodes = [NODE, WantedNode("n2", "hgx-h100", "e1")]
    known = {"n1": KNOWN, "n2": KnownNode("boot-n2", NOW - 600, healthy=True)}
    choice = choose(nodes, claims(answer(found), {"n1", "n2"}), known, HEAD, NoSample())
    assert choice.visits.keys() | choice.left_out.keys() == {"n1", "n2"}
    for name in choice.left_out:
        kinds = Counter(one["metric"]["__name__"] for one in found if isinstance(one, dict)
                        and isinstance(one.get("metric"), dict)
                        and one["metric"].get("exported_node", one["metric"].get("node")) == name
                        and one["metric"].get("__name__") in {HEALTHY.name, RUN_TIME.name, PERIOD.name,
                                                              RUN_INFO.name})
        assert kinds == Counter([HEALTHY.name, RUN_TIME.name, PERIOD.name, RUN_INFO.name])
        assert choice.left_out[name].basis.boot_id == f"boot-{name}" and choice.left_out[name].at == NOW - 100


@given(body=st.binary() | st.builds(lambda found: json.dumps(found).encode(), st.recursive(
    VALUE,
    lambda inner: st.dictionaries(st.sampled_from(["status", "data", "result", "resultType",
                                                   "warnings", "error"]),
                                  inner | st.sampled_from(["success", "error", "vector"]), max_size=5))))
def test_any_answer_is_read_or_is_one_line(body: bytes) -> None:
    try:
        assert claims(body, {"n1"}) == {}
    except PrometheusError as error:
        assert str(error).isprintable() and len(str(error)) < 400


def fleet(number: int, sku: str = "hgx-h100") -> tuple[list[WantedNode], bytes, dict[str, KnownNode]]:
    names = [f"{sku[-4:]}n{at}" for at in range(number)]
    found = [one for name in names for one in series(name, sku=sku)]
    return ([WantedNode(name, sku, "e1") for name in names], answer(found),
            {name: KnownNode(f"boot-{name}", NOW - 600, healthy=True) for name in names})


def merged(*fleets: tuple[list[WantedNode], bytes, dict[str, KnownNode]]) -> SweepChoice:
    nodes = [node for some, _, _ in fleets for node in some]
    known = {name: one for _, _, each in fleets for name, one in each.items()}
    found = [one for _, body, _ in fleets for one in json.loads(body)["data"]["result"]]
    return choose(nodes, claims(answer(found), known.keys()), known, HEAD, random.Random(1))


def test_each_cohort_has_a_sample_of_its_own_and_a_small_one_is_visited_whole() -> None:
    choice = merged(fleet(500), fleet(60, "hgx-h200"), fleet(4, "cpu-only"))
    drawn = Counter(name[:4] for name, visit in choice.visits.items() if visit is Visit.SAMPLE)
    assert drawn == {"h100": 20, "h200": 6, "only": 4} and len(choice.left_out) == 480 + 54
    assert {sku: (len(sample.names), sample.left_out) for sku, sample in choice.samples.items()} == {
        "hgx-h100": (20, 480), "hgx-h200": (6, 54)}
    assert not choice.samples["hgx-h100"].names & choice.left_out.keys()


def test_each_profile_of_a_cohort_has_a_sample_of_its_own_and_they_stand_for_it_together() -> None:
    nodes, body, known = fleet(40)
    mixed = [replace(node, profile="storage") if number < 6 else node for number, node in enumerate(nodes)]
    choice = choose(mixed, claims(body, known.keys()), known, HEAD, random.Random(1))
    drawn = Counter(node.profile for node in mixed if node.name in choice.visits)
    assert drawn == {"storage": 4, "": 4} and choice.samples["hgx-h100"].names == choice.visits.keys()
    assert choice.samples["hgx-h100"].left_out == 32


def test_what_stands_for_a_cohort_holds_as_many_of_its_sick_as_there_are() -> None:
    nodes, body, known = fleet(200)
    for name in list(known)[:100]:
        known[name] = replace(known[name], healthy=False)
    choice = choose(nodes, claims(body, known.keys()), known, HEAD, random.Random(1))
    (sample,) = choice.samples.values()
    assert sum(not known[name].healthy for name in sample.names) == 10 and len(sample.names) == 20


def test_every_healthy_node_can_be_in_the_sample() -> None:
    nodes, body, known = fleet(40)
    found, rng = claims(body, known.keys()), random.Random(1)
    seen = {name for _ in range(200) for name in choose(nodes, found, known, HEAD, rng).visits}
    assert seen == known.keys()


@pytest.mark.parametrize(("between", "days"), [
    (900.0, 2), pytest.param(300.0, 3, marks=pytest.mark.slow), (6 * 3600.0, 6), (25 * 3600.0, 6)])
def test_every_node_is_visited_each_day_and_not_all_of_them_at_once(between: float, days: int) -> None:
    names = [f"n{number}" for number in range(200)]
    nodes = [WantedNode(name, "hgx-h100", "e1") for name in names]
    last: dict[str, float] = dict.fromkeys(names, NOW)
    now, longest, most = NOW, 0.0, 0
    one = claims(answer([each for name in names for each in series(name)]), names)
    while now < NOW + days * 86400:
        before, now = now, now + between
        for claim in one.values():
            claim.values[RUN_TIME.name] = now - 10
        known: Mapping[str, KnownNode] = {name: KnownNode(f"boot-{name}", at, healthy=True)
                                          for name, at in last.items()}
        choice = choose(nodes, one, known, replace(HEAD, now=now, swept=before), NoSample())
        assert set(choice.visits.values()) <= {Visit.DUE}
        for name in choice.visits:
            longest = max(longest, now - last[name])
            last[name] = now
        most = max(most, len(choice.visits))
    # Sweeps that are further apart than a day visit every node.
    assert longest <= max(86400.0, between) and (most < 20 if between < 3600 else most <= 200)


def test_the_line_says_how_many_were_left_out_and_why_each_other_was_visited() -> None:
    assert line(merged(fleet(500))) == (
        "--from-prometheus: 480 of 500 nodes are healthy by their agents and were not visited; 20 were "
        "visited: "
        "20 because they are in the random sample")
    assert line(visit_all([NODE], "http://h:9090: it answered 503")) == (
        "--from-prometheus: http://h:9090: it answered 503; so all nodes are visited")
