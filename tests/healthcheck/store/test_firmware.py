"""What the store keeps of firmware: each version with the time of its own reading, whoever read it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.firmware import BMC, KINDS, SWEEP, ComponentVersion, FirmwareReading, MachineFirmware
from healthcheck.store.file import Store
from healthcheck.store.firmware import known_firmware, merged, recognised_skus, write_controller
from healthcheck.store.readings import NodeReadings
from healthcheck.store.renaming import rename
from healthcheck.store.sweeps import SweepRecord, record
from tests.healthcheck.store.test_sweeps import GOOD, report


def version(name: str, found: str | None, kind: str = "vbios") -> ComponentVersion:
    return ComponentVersion(name, kind, found, 0.0, "", "" if found else "lost")


def look(*versions: ComponentVersion, whole: tuple[str, ...] = (), maker: str = "") -> FirmwareReading:
    return FirmwareReading(maker, versions, frozenset(whole))


def held(known: MachineFirmware) -> dict[tuple[str, str], tuple[str | None, float]]:
    return {(one.source, one.name): (one.version, one.time) for one in known.versions}


def swept(store: Store, at: float, found: FirmwareReading, node: str = "n1") -> None:
    record(store, SweepRecord(at, at + 1, False, "t", "d"), [report(GOOD, node=node)],
           {node: NodeReadings((), (), frozenset(), firmware=found)}, clock=lambda: at + 1)


def test_a_version_that_is_not_read_again_stays_with_the_time_of_its_own_reading(store: Store) -> None:
    swept(store, 100, look(version("gpu a", "1"), version("gpu b", "1"), whole=("vbios",), maker="Dell Inc."))
    swept(store, 200, look(version("gpu a", "2"), version("gpu b", None), whole=("vbios",)))
    known = known_firmware(store)["n1"]
    assert held(known) == {(SWEEP, "gpu a"): ("2", 200.0), (SWEEP, "gpu b"): ("1", 100.0)}
    assert (known.maker == "Dell Inc." and known.looked == {SWEEP: 200.0}
            and known.whole == {(SWEEP, "vbios"): 200.0})


def test_a_part_is_gone_only_where_all_of_its_kind_were_seen(store: Store) -> None:
    swept(store, 100, look(version("gpu a", "1"), version("gpu b", "1"), whole=("vbios",)))
    swept(store, 200, look(version("gpu a", "1")))
    assert len(held(known_firmware(store)["n1"])) == 2
    swept(store, 300, look(version("gpu a", "1"), whole=("vbios",)))
    assert list(held(known_firmware(store)["n1"])) == [(SWEEP, "gpu a")]


def test_sweeps_and_controllers_do_not_write_over_each_other_and_a_controllers_list_is_all_it_has(
        store: Store) -> None:
    swept(store, 100, look(version("bios", "2.1", "bios"), whole=("bios",)))
    write_controller(store, "n1", 150, look(version("bios", "2.2", "bios"), version("PSU1", "7", "psu")))
    write_controller(store, "n1", 160, look(version("bios", "2.2", "bios")))
    write_controller(store, "n2", 160, look(version("bmc", "7", "bmc"), maker="HPE"))
    known = known_firmware(store)
    assert held(known["n1"]) == {(SWEEP, "bios"): ("2.1", 100.0), (BMC, "bios"): ("2.2", 160.0)}
    assert known["n2"].maker == "HPE"


def test_an_older_look_changes_nothing_and_one_of_a_clock_that_was_ahead_does_not_last(store: Store) -> None:
    write_controller(store, "n1", 1000, look(version("bmc", "7", "bmc")))
    write_controller(store, "n1", 900, look(version("bmc", "6", "bmc")))
    assert held(known_firmware(store)["n1"]) == {(BMC, "bmc"): ("7", 1000.0)}
    write_controller(store, "n1", 9e6, look(version("bmc", "8", "bmc"), version("PSU1", "7", "psu")))
    write_controller(store, "n1", 2000, look(version("bmc", "9", "bmc"), version("PSU1", None, "psu")))
    assert held(known_firmware(store)["n1"]) == {(BMC, "bmc"): ("9", 2000.0), (BMC, "PSU1"): ("7", 2000.0)}


def test_the_newer_row_of_two_names_stays_when_a_node_is_renamed(store: Store) -> None:
    write_controller(store, "old", 100, look(version("bmc", "1", "bmc")))
    write_controller(store, "new", 200, look(version("bmc", "2", "bmc")))
    rename(store, "old", "new", "ops", 300)
    assert (held(known_firmware(store)["new"]) == {(BMC, "bmc"): ("2", 200.0)}
            and "old" not in known_firmware(store))


def test_the_sku_that_a_sweep_took_a_node_for_is_known(store: Store) -> None:
    record(store, SweepRecord(100, 101, False, "t", "d"),
           [replace(report(GOOD), sku="hgx-h100"), report(GOOD, node="n2")])
    assert recognised_skus(store, {"n1", "n2"}) == {"n1": "hgx-h100"} and recognised_skus(store, {"n2"}) == {}


_VERSIONS = st.lists(st.builds(version, st.sampled_from(["a", "b", "c"]), st.none() | st.sampled_from("123"),
                               st.sampled_from(KINDS)), max_size=4, unique_by=lambda one: one.name)
_LOOKS = st.lists(st.tuples(st.sampled_from([SWEEP, BMC]), st.builds(
    FirmwareReading, st.sampled_from(["", "Dell"]), _VERSIONS.map(tuple),
    st.frozensets(st.sampled_from(KINDS)))), max_size=6)


@given(_LOOKS)
def test_no_version_is_newer_than_its_look_and_each_was_told(
        looks: list[tuple[str, FirmwareReading]]) -> None:
    known = MachineFirmware()
    for at, (source, found) in enumerate(looks):
        known = merged(known, source, float(at), found)
    assert all(one.time <= len(looks) for one in known.versions)
    for one in known.versions:
        source, found = looks[int(one.time)]
        assert source == one.source and one.version in {told.version
                                                        for told in found.versions if told.name == one.name}
