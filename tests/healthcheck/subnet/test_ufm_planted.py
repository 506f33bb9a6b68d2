"""What is planted in a stand-in UFM is found by what it answers over HTTPS, at the place where it was
planted, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.subnet.check.findings import FabricFinding, FabricRule
from healthcheck.subnet.check.whole import check_fabric
from healthcheck.subnet.join import join
from healthcheck.sweep import ufmoutput
from healthcheck.sweep.fabricoutput import saved
from healthcheck.sweep.ufmrest import UfmLogin, UfmRest
from healthcheck.sweep.ufmwire import place_of
from inventory.transport.httponce import HttpTrust
from tests.testbed import fabricoutputs
from tests.testbed.ibfabric import two_tiers
from tests.testbed.ufm import TOKEN, Ufm, serving
from tests.tries import tries

PLAN = two_tiers(8, 4, 2, uplinks=2)
CABLES = len(PLAN.cables)
# A leaf with fewer uplinks is a finding of its own beside that of the link.
OF_LINKS = (FabricRule.LINK, FabricRule.CABLE, FabricRule.STATE, FabricRule.WIDTH)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ufm]:
    with serving(Ufm(PLAN), tmp_path_factory.mktemp("ufm")) as made:
        yield made


def found(bed: Ufm, page_rows: int) -> list[FabricFinding]:
    rest = UfmRest(place_of(bed.url), HttpTrust(pins=(bed.fingerprint,)), UfmLogin(TOKEN),
                   page_rows=page_rows)
    (output,) = ufmoutput.ask([rest])
    subnet = output.subnet()
    assert not output.missing and not subnet.partial
    report = check_fabric([(subnet, output.time)], join([subnet], ()), PLAN, None, {}, None)
    return [one for one in report.findings if not one.unknown]


@settings(max_examples=tries(20), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.integers(0, CABLES - 1), st.sampled_from(("down", "unhealthy", "narrow")),
                       max_size=4), st.sampled_from((3, 7, 2000)))
def test_planted_faults_are_found_where_they_are_and_nothing_else(bed: Ufm, planted: dict[int, str],
                                                                  page_rows: int) -> None:
    cables = sorted({frozenset({name, bed.ends[name]}) for name in bed.rows}, key=sorted)
    kept = {name: dict(row) for name, row in bed.rows.items()}
    wanted = {}
    for number, fault in planted.items():
        names = cables[number]
        wanted[names] = {"down": FabricRule.LINK, "unhealthy": FabricRule.STATE,
                         "narrow": FabricRule.WIDTH}[fault]
        if fault == "down":
            bed.down |= names
        elif fault == "unhealthy":
            bed.unhealthy[min(names)] = ["MANUAL"]
        else:
            for name in names:
                bed.rows[name]["active_width"] = "1x"
    try:
        shown = found(bed, page_rows)
    finally:
        bed.down.clear()
        bed.unhealthy.clear()
        bed.rows |= kept
    places = {frozenset(f"{end.guid}_{end.number}" for end in one.place.ends): one.rule
              for one in shown if one.rule in OF_LINKS}
    gone = {one.place.name for one in shown if one.rule in (FabricRule.HOST, FabricRule.ADAPTER)}
    # A host whose only link is down is a host that is gone, at the port where it should be.
    missing = {names: rule for names, rule in wanted.items()
               if not (rule is FabricRule.LINK
                       and any(bed.rows[name]["system_name"] in gone for name in names))}
    assert set(places) <= set(wanted), (places, wanted)
    assert {names: places.get(names) for names in missing} == missing, shown
    assert bool(shown) == bool(planted)


def test_ufm_shows_the_subnet_that_infiniband_diags_show(bed: Ufm, tmp_path: Path) -> None:
    rest = UfmRest(place_of(bed.url), HttpTrust(pins=(bed.fingerprint,)), UfmLogin(TOKEN))
    (by_ufm,) = (output.subnet() for output in ufmoutput.ask([rest]))
    (by_tools,) = (output.subnet() for output in saved(fabricoutputs.write(PLAN, tmp_path / "outputs")))
    assert by_ufm.links == by_tools.links
    assert {guid: (one.kind, one.description) for guid, one in by_ufm.devices.items()} == {
        guid: (one.kind, one.description) for guid, one in by_tools.devices.items()}
    assert {port.end: (port.state, port.physical, port.width, port.speed) for port in by_ufm.ports()} == {
        port.end: (port.state, port.physical, port.width, port.speed)
        for port in by_tools.ports() if port.peer is not None}


def test_a_swapped_pair_is_found_at_both_switch_ports(bed: Ufm) -> None:
    first, second = bed.name("leaf01", 1), bed.name("leaf01", 2)
    kept = dict(bed.ends)
    one, other = kept[first], kept[second]
    bed.ends |= {first: other, other: first, second: one, one: second}
    try:
        shown = found(bed, 2000)
    finally:
        bed.ends |= kept
    assert [(one.rule, one.place.name) for one in shown] == [(FabricRule.CABLE, "leaf01 port 1"),
                                                             (FabricRule.CABLE, "leaf01 port 2")]
    assert shown[0].observed.startswith("its cable leads to gpu002")
