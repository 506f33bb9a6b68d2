"""Counters of links and GPUs, as looks bring them, in the names that the limits know."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from healthcheck.burnin.model import Participant, Rail
from healthcheck.burnin.publishedload import load_burnin
from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.counter import BY_NAME
from healthcheck.model.recording import Recording
from provisioning.burnin import counters
from provisioning.burnin.sample import NodeSample, seen
from tests.healthcheck import machine

PLACE = Participant("gpu001", 8, rails=tuple(Rail(at, f"0000:{0x40 + at:02x}:00.0") for at in range(8)))


def sample(**texts: str) -> NodeSample:
    recording = machine.recording()
    captures = dict(recording.captures)
    for name, text in texts.items():
        for probe in ("port.counters", "port.sysfs"):
            files = dict(captures[probe].files)
            files = {
                path: entry._replace(text=text) if "/mlx5_2/" in path and path.endswith(f"/{name}") else entry
                    for path, entry in files.items()}
            captures[probe] = replace(captures[probe], files=files)
    return seen(replace(recording, captures=captures))


def test_a_healthy_machine_has_counters_of_every_gpu_and_rail_and_each_is_read() -> None:
    found = counters.values(sample(), PLACE, gpus=True)
    assert {subject for subject, _ in found} == {
        *(f"gpu{at}" for at in range(8)), *(f"rail{at}" for at in range(8))}
    assert None not in found.values()
    assert {
        "ecc_uncorrected", "remapped_uncorrectable", "pcie_replays", "nvlink_replays", "link_downed",
        "symbol_error"} <= {name for _, name in found}


def test_every_counter_of_which_there_is_a_limit_is_looked_at_under_its_name() -> None:
    rules = load_burnin([packaged()])
    names = {name for _, name in counters.values(sample(), PLACE, gpus=True)}
    judged = {name for limit in rules.counters for name in limit.counters}
    # Those of other drivers than the sample's are not there, and one is of another reader.
    elsewhere = {name
                 for name, spec in BY_NAME.items()
                 if not fnmatchcase("mlx5_0", spec.devices)} | {"remapped_rows"}
    assert judged - elsewhere <= names and "link_downed" not in elsewhere


def test_what_rose_is_reported_of_the_rail_where_it_did() -> None:
    before, after = sample(link_downed="3\n"), sample(link_downed="5\n")
    found = counters.compared({"gpu001": counters.values(before, PLACE, True)},
                              {"gpu001": counters.values(after, PLACE, True)}, 600)
    [one] = [one for one in found if one.before != one.after]
    assert (one.node, one.subject, one.name, one.before, one.after, one.seconds) == (
        "gpu001", "rail2", "link_downed", 3, 5, 600)


def test_what_could_not_be_read_is_none_and_what_the_device_lacks_is_left_out() -> None:
    lost = counters.values(seen(Recording("gpu001", 0.0, None, None)), PLACE, gpus=True)
    assert lost["GPUs", "ecc_uncorrected"] is None and lost["rail0", "link_downed"] is None
    found = counters.compared({"gpu001": counters.values(sample(), PLACE, True)}, {"gpu001": lost}, 60)
    assert all(one.after is None for one in found)
    assert counters.values(seen(Recording("n1", 0.0, None, None)), Participant("n1", 2), gpus=False) == {}
    garbled = counters.values(sample(symbol_error="many\n"), PLACE, gpus=True)
    assert garbled["rail2", "symbol_error"] is None and garbled["rail1", "symbol_error"] == 0
