"""Rules of rules/port.yaml that need no SKU's number: each passes at its limit, fails beyond it, and says
what it could not see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.counter import TABLE, GrowthMeaning
from healthcheck.facts.port import SYSFS
from healthcheck.facts.values import Unmeasured, Unsupported, reading
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Capture, Outcome, Recording
from inventory.model import PortPlan
from tests.healthcheck import machine
from tests.healthcheck.checks.ports import PLANNED, changed, of, port, snapshot
from tests.healthcheck.checks.verdicts import findings_of, ids

EARLIER = snapshot()
NOT_A_GID = "0000:0000:0000:0000:0000:0000:0000:0000\n"

# Files of ports, by "mlx5_N.name", as they are now.
PASSING: list[tuple[str, dict[str, str]]] = [
    *((rule, {}) for rule in ("port-width", "port-link-layer", "port-lid", "port-gid", "port-pkey")),
    # Split cables make 2X of all of them; one that is down shows the width of its last training.
    ("port-width", {f"mlx5_{n}.rate": "200 Gb/sec (2X NDR)\n" for n in range(8)}),
    ("port-width", {"mlx5_3.rate": "2.5 Gb/sec (1X SDR)\n", "mlx5_3.state": "1: DOWN\n"}),
    ("port-lid", {"mlx5_3.lid": "0xbfff\n"}),
    ("port-lid", {"mlx5_3.lid": "0x0\n", "mlx5_3.state": "2: INIT\n"}),
    ("port-lid", {f"mlx5_{n}.{name}": text for n in range(8) for name, text in
                  {"link_layer": "Ethernet\n", "lid": "0x0\n", "sm_lid": "0x0\n"}.items()}),
    ("port-gid", {"mlx5_3.0": "0xffff\n", "mlx5_3.state": "2: INIT\n"}),
]
FAILING: list[tuple[str, dict[str, str], str]] = [
    ("port-width", {"mlx5_3.rate": "200 Gb/sec (2X NDR)\n"},
     "mlx5_3/1 (0000:43:00.0): 2X, expected 4X, as 7 of the node's 8 such ports"),
    ("port-width", {f"mlx5_{n}.rate": "100 Gb/sec (1X NDR)\n" for n in (0, 1, 2)},
     "; ".join(f"mlx5_{n}/1 (0000:4{n}:00.0): 1X, expected 4X, as 5 of the node's 8 such ports"
               for n in (0, 1, 2))),
    # Cabled to an InfiniBand switch it gets no link with the other protocol.
    ("port-link-layer", {"mlx5_3.link_layer": "Ethernet\n", "mlx5_3.state": "1: DOWN\n"},
     "mlx5_3/1 (0000:43:00.0): Ethernet, expected InfiniBand, as 7 of the node's 8 such ports"),
    ("port-lid", {"mlx5_3.lid": "0x0\n"},
     "mlx5_3/1 (0000:43:00.0): LID 0x0, expected a unicast LID (0x1 to 0xbfff)"),
    ("port-lid", {"mlx5_3.lid": "0xc000\n"},
     "mlx5_3/1 (0000:43:00.0): LID 0xc000, expected a unicast LID (0x1 to 0xbfff)"),
    ("port-lid", {"mlx5_3.sm_lid": "0x0\n"},
     "mlx5_3/1 (0000:43:00.0): no subnet manager (SM LID 0), expected the subnet manager's LID"),
]


@pytest.mark.parametrize(("rule", "files"), PASSING)
def test_ports_as_they_should_be_pass(rule: str, files: dict[str, str]) -> None:
    result = of(rule, snapshot(port_sysfs=machine.ports(**files)))
    assert (result.status, findings_of(result)) == (Status.PASS, "")


@pytest.mark.parametrize(("rule", "files", "words"), FAILING)
@pytest.mark.parametrize("plans", [{}, PLANNED], ids=["unplanned", "planned"])
def test_the_port_that_is_wrong_is_named_and_no_other(rule: str, files: dict[str, str], words: str,
                                                      plans: dict[str, PortPlan]) -> None:
    result = of(rule, snapshot(port_sysfs=machine.ports(**files)), **plans)
    assert (result.status, findings_of(result)) == (Status.FAIL, words)
    assert result.remedy


def test_an_equal_adapter_that_works_in_an_ethernet_is_there_on_purpose_unless_a_plan_says_no() -> None:
    """Storage and management ports may be of the compute ports' board."""
    def held(count: int, *ethernet: int) -> Recording:
        capture = machine.ports(count, **{
            f"mlx5_{n}.{name}": text for n in ethernet
            for name, text in (("link_layer", "Ethernet\n"), ("lid", "0x0\n"), ("sm_lid", "0x0\n"))})
        for n in range(count):
            text = f"DRIVER=mlx5_core\nPCI_ID=15B3:1021\nPCI_SLOT_NAME=0000:{0x40 + n:02x}:00.0\n"
            capture = changed(capture, f"/sys/class/infiniband/mlx5_{n}/device/uevent", text=text)
        return snapshot(port_sysfs=capture)

    apart = held(10, 8, 9)
    found = {rule: of(rule, apart) for rule in ids("port.yaml")}
    assert not any(result.status in (Status.FAIL, Status.UNKNOWN) for result in found.values())
    planned = {**PLANNED, "0000:48:00.0": PortPlan("compute", 8), "0000:49:00.0": PortPlan("compute", 9)}
    assert findings_of(of("port-link-layer", apart, **planned)).count("expected InfiniBand") == 2
    # One of the compute ports that an Ethernet switch serves is missing from their number.
    assert findings_of(of("port-count", held(8, 3))) == "ports: 7, expected at least 8"


def test_a_port_without_a_gid_or_without_full_membership_is_named() -> None:
    held = machine.ports()
    bare = changed(held, port(3, "gids/0"), text=NOT_A_GID)
    assert (findings_of(of("port-gid", snapshot(port_sysfs=bare))) == "mlx5_3/1 (0000:43:00.0): no GID in "
            "its table, expected one at least")
    for keys, shown in (("0x7fff\n", "0x7fff"), ("0x0000\n", "none")):
        limited = changed(held, port(3, "pkeys/0"), text=keys)
        assert (findings_of(of("port-pkey", snapshot(port_sysfs=limited))) == f"mlx5_3/1 (0000:43:00.0): "
                f"partition keys: {shown}, expected full membership of one partition at least")
    # A tenant's partition is as good as the default one.
    assert of("port-pkey",
              snapshot(port_sysfs=changed(held, port(3, "pkeys/2"), text="0x8001\n"))).status is Status.PASS


def test_a_table_of_keys_that_goes_on_behind_what_was_read_is_no_lack_of_membership() -> None:
    held = machine.ports()
    for entry, key in enumerate(("0x7fff\n", "0x0001\n", "0x0002\n", "0x0003\n")):
        held = changed(held, port(3, f"pkeys/{entry}"), text=key)
    result = of("port-pkey", snapshot(port_sysfs=held))
    assert (result.status, findings_of(result)) == (Status.UNKNOWN, "")
    assert "only its first 4 partition keys are read" in result.reason


@pytest.mark.parametrize(("rule", "name"), [
    ("port-width", "rate"), ("port-link-layer", "link_layer"), ("port-lid", "lid"), ("port-lid", "sm_lid"),
    ("port-gid", "gids/0"), ("port-pkey", "pkeys/3"),
])
@pytest.mark.parametrize(("outcome", "text"), [(Outcome.DENIED, ""), (Outcome.CRASHED, "EINVAL"),
                                               (Outcome.TIMEOUT, ""), (Outcome.TRUNCATED, "0")])
def test_a_file_that_cannot_be_read_makes_its_port_unknown(rule: str, name: str, outcome: Outcome,
                                                           text: str) -> None:
    result = of(rule,
                snapshot(port_sysfs=changed(machine.ports(), port(3, name), outcome=outcome, text=text)))
    assert (result.status, findings_of(result)) == (Status.UNKNOWN, "")
    assert "mlx5_3/1" in result.reason


def test_tables_that_the_driver_does_not_have_are_skipped() -> None:
    tables = [port(n, f"{table}/{entry}") for n in range(8) for table in ("gids", "pkeys")
              for entry in range(4)]
    bare = changed(machine.ports(), *tables, outcome=Outcome.MISSING)
    assert [of(rule, snapshot(port_sysfs=bare)).status
            for rule in ("port-gid", "port-pkey")] == [Status.SKIPPED] * 2


# ---- counters: what they are now, ten minutes after they were all 0, and on links of 100 Gb/s


def at_speed(words: str) -> Capture:
    return machine.ports(**{f"mlx5_{n}.rate": f"{words}\n" for n in range(8)})


EDR = at_speed("100 Gb/sec (4X EDR)")


def grown(seconds: float = 600, ports: Capture = EDR, **counters: str) -> Recording:
    return snapshot(seconds, port_sysfs=ports, port_counters=machine.counters(**counters))


COUNTED = [
    ("port-errors-fatal", "excessive_buffer_overrun_errors", 0, 1,
     "grew by 1 since the earlier snapshot, expected no growth"),
    ("port-errors-fatal", "local_link_integrity_errors", 0, 1,
     "grew by 1 since the earlier snapshot, expected no growth"),
    *(("port-retries", name, 0, 1, "grew by 1 since the earlier snapshot, expected no growth")
      for name in ("rnr_nak_retry_err", "req_transport_retries_exceeded", "req_rnr_retries_exceeded")),
    ("port-errors-fatal", "res_tx_pci_err", 0, 1, "grew by 1 since the earlier snapshot, expected no growth"),
    ("port-errors-fatal", "res_rx_pci_err", 0, 1, "grew by 1 since the earlier snapshot, expected no growth"),
    *(("port-retries", name, 0, 1, "grew by 1 since the earlier snapshot, expected no growth")
      for name in ("max_retry_exceeded", "unrecoverable_err", "req_tx_retry_excd_err",
                   "unresponsive_remote_events", "impaired_remote_conn_events")),
    *(("port-errors-rate", name, 600, 660, "1.1 a second, expected at most 1 a second")
      for name in ("to_retransmits", "tx_rdma_ack_timeout", "retrans_timeout_events", "requester_timeout")),
    *(("port-errors-rate", name, 6000, 6060, "10.1 a second, expected at most 10 a second")
      for name in ("seq_err_naks_rcvd", "RetransSegs", "tcpRetransSegs", "req_rx_pkt_seq_err",
                   "req_rx_impl_nak_seq_err", "requester_oos_nak", "rx_roce_errors", "InProtoErrors",
                   "tcpInProtoErrors")),
    *(("port-errors-rate", name, 60000, 60060, "100.1 a second, expected at most 100 a second")
      for name in ("rx_roce_discards", "rx_drops")),
    ("port-errors-rate", "symbol_error", 20, 21, "126.0 an hour, expected at most 120 an hour"),
    ("port-errors-rate", "link_error_recovery", 50, 51, "5.1 a minute, expected at most 5 a minute"),
    ("port-errors-rate", "port_rcv_errors", 6000, 6060, "10.1 a second, expected at most 10 a second"),
    ("port-errors-rate", "port_xmit_discards", 60000, 60060, "100.1 a second, expected at most 100 a second"),
    ("port-errors-rate", "local_ack_timeout_err", 600, 660, "1.1 a second, expected at most 1 a second"),
    ("port-errors-rate", "roce_slow_restart", 6000, 6060, "10.1 a second, expected at most 10 a second"),
]


@pytest.mark.parametrize(("rule", "counter", "most", "beyond", "words"), COUNTED)
def test_a_counter_at_its_limit_passes_and_beyond_it_is_named(
    rule: str, counter: str, most: int, beyond: int, words: str,
) -> None:
    earlier = snapshot(port_counters=machine.counters(**{f"mlx5_3.{counter}": "0\n"}))
    assert of(rule, grown(**{f"mlx5_3.{counter}": f"{most}\n"}), earlier).status is Status.PASS
    result = of(rule, grown(**{f"mlx5_3.{counter}": f"{beyond}\n"}), earlier)
    colon = " " if words.startswith("grew") else ": "
    assert (result.status, findings_of(result)) == (Status.FAIL,
                                                    f"mlx5_3/1 (0000:43:00.0): {counter}{colon}{words}")


def test_of_every_counter_that_is_judged_there_is_a_line_above_and_the_others_are_normal_under_load() -> None:
    judged = {counter.name for counter in TABLE if counter.meaning is not GrowthMeaning.INFORMATIONAL}
    assert judged <= {line[1] for line in COUNTED}
    busy = grown(**{f"mlx5_{n}.{counter}": "40000\n" for n in range(8)
                    for counter in ("port_xmit_wait", "out_of_sequence", "packet_seq_err")})
    for rule in ("port-errors-fatal", "port-errors-rate", "port-retries"):
        assert of(rule, busy, EARLIER).status is Status.PASS


# An hour at 1e-14: 7.2 at 200 Gb/s, 14.4 at 400, 28.8 at 800; fewer than ten accuse no one.
@pytest.mark.parametrize(("speed", "seconds", "errors", "words"), [
    ("200 Gb/sec (4X HDR)", 3600, 9, ""),
    ("200 Gb/sec (4X HDR)", 3600, 10, "grew by 10, 1e-14 of its bits at 200"),
    ("400 Gb/sec (4X NDR)", 3600, 14, ""),
    ("400 Gb/sec (4X NDR)", 3600, 15, "grew by 15, 1e-14 of its bits at 400"),
    ("800 Gb/sec (4X XDR)", 3600, 28, ""),
    ("800 Gb/sec (4X XDR)", 3600, 29, "grew by 29, 1e-14 of its bits at 800"),
    ("400 Gb/sec (4X NDR)", 300, 9, ""), ("400 Gb/sec (4X NDR)", 86400, 345, ""),
    ("400 Gb/sec (4X NDR)", 600, 60000, "grew by 60000, 3e-10 of its bits at 400"),
])
def test_symbol_errors_of_fast_links_are_judged_as_a_share_of_their_bits(
    speed: str, seconds: float, errors: int, words: str,
) -> None:
    result = of("port-errors-rate",
                grown(seconds, at_speed(speed), **{"mlx5_3.symbol_error": f"{errors}\n"}), EARLIER)
    assert result.status is (Status.FAIL if words else Status.PASS)
    assert findings_of(result) == (words
                                   and f"mlx5_3/1 (0000:43:00.0) symbol_error: symbol_error {words} Gb/s, "
                                   "expected at most 1e-14")
    down = machine.ports(**{"mlx5_3.state": "1: DOWN\n"})
    assert of("port-errors-rate", grown(seconds, down, **{"mlx5_3.symbol_error": f"{errors}\n"}),
              EARLIER).status is Status.PASS


@pytest.mark.parametrize(("counter", "rule"), [("local_link_integrity_errors", "port-errors-fatal"),
                                               ("port_rcv_errors", "port-errors-rate")])
def test_a_counter_that_was_reset_is_unknown_and_one_that_has_just_become_full_grew(counter: str,
                                                                                    rule: str) -> None:
    full = next(entry.full for entry in TABLE if entry.name == counter)
    earlier = snapshot(port_counters=machine.counters(**{f"mlx5_3.{counter}": "3\n"}))
    result = of(rule, grown(**{f"mlx5_3.{counter}": "2\n"}), earlier)
    assert (result.status, findings_of(result)) == (Status.UNKNOWN, "")
    assert counter in result.reason
    assert of(rule, grown(60, **{f"mlx5_3.{counter}": f"{full}\n"}), EARLIER).status is Status.FAIL


NARROW = [(entry.name, entry.full, entry.meaning) for entry in TABLE
          if entry.bits and entry.meaning is not GrowthMeaning.INFORMATIONAL]
RULE_OF = {GrowthMeaning.FATAL: "port-errors-fatal", GrowthMeaning.RATE: "port-errors-rate"}


@pytest.mark.parametrize(("counter", "full", "meaning"), NARROW)
def test_a_counter_at_its_ceiling_is_named_as_such_and_is_neither_unknown_nor_no_growth(
    counter: str, full: int, meaning: GrowthMeaning,
) -> None:
    stuck = machine.counters(**{f"mlx5_3.{counter}": f"{full}\n"})
    now, before = (snapshot(seconds, port_counters=stuck) for seconds in (600, 0))
    result = of("port-counter-full", now)
    assert (result.status, findings_of(result)) == (
        Status.FAIL,
        f"mlx5_3/1 (0000:43:00.0) {counter}: stands at {full}, its highest value, and counts no more, "
        "expected a counter that still counts")
    growth = of(RULE_OF[meaning], now, before)
    assert growth.status is Status.PASS
    assert growth.reason == (
        f"not supported: growth of value, which is full at {full}, of mlx5_3/1 (0000:43:00.0) {counter}")
    one_less = machine.counters(**{f"mlx5_3.{counter}": f"{full - 1}\n"})
    assert of("port-counter-full", snapshot(port_counters=one_less)).status is Status.PASS


def test_link_downed_at_255_is_named_and_leaves_no_rule_unknown() -> None:
    now, before = downed(255), downed(255, 0)
    assert findings_of(of("port-counter-full", now)) == (
        "mlx5_3/1 (0000:43:00.0) link_downed: stands at 255, its highest value, and counts no more, expected "
        "a counter "
        "that still counts")
    for rule in ("port-link-downed", "port-flapping", "port-down-since"):
        assert of(rule, now, before).status is Status.PASS
    assert of("port-link-downed", now, downed(254, 0)).status is Status.FAIL


def test_counters_of_64_bits_have_no_ceiling_and_their_growth_is_reported() -> None:
    result = of("port-link-downed", downed(310), downed(300, 0))
    assert findings_of(result) == (
        "mlx5_3/1 (0000:43:00.0): lost its link 10 times since the earlier snapshot, expected at most 0")
    assert of("port-counter-full", downed(310)).status is Status.PASS
    # One of the port's counters is past its narrow width: the others are as wide.
    wide = {"mlx5_3.symbol_error": "70000\n", "mlx5_3.local_link_integrity_errors": "15\n"}
    now, before = (snapshot(seconds, port_counters=machine.counters(**wide)) for seconds in (600, 0))
    assert of("port-counter-full", now).status is Status.PASS
    assert of("port-errors-fatal", now, before).reason == ""


@pytest.mark.parametrize(("outcome", "status"),
                         [(Outcome.DENIED, Status.UNKNOWN), (Outcome.MISSING, Status.PASS)])
def test_a_counter_that_was_not_read_is_no_counter_that_counts(outcome: Outcome, status: Status) -> None:
    torn = changed(machine.counters(), port(3, "counters/symbol_error"), outcome=outcome)
    assert of("port-counter-full", snapshot(port_counters=torn)).status is status


def test_what_cannot_be_read_of_one_counter_hides_no_other() -> None:
    torn = changed(machine.counters(**{"mlx5_3.local_link_integrity_errors": "2\n"}),
                   port(3, "counters/excessive_buffer_overrun_errors"), outcome=Outcome.DENIED)
    result = of("port-errors-fatal", snapshot(600, port_counters=torn), EARLIER)
    assert result.status is Status.FAIL and "local_link_integrity_errors grew by 2" in findings_of(result)
    assert "excessive_buffer_overrun_errors" in result.reason


@pytest.mark.parametrize("rule", ["port-errors-fatal", "port-errors-rate", "port-retries"])
def test_counters_that_no_driver_has_are_skipped_and_those_that_were_not_captured_unknown(rule: str) -> None:
    none = snapshot(600, port_counters=Capture(Outcome.DONE))
    assert of(rule, none, snapshot(port_counters=Capture(Outcome.DONE))).status is Status.SKIPPED
    no_agent = machine.counters(**{f"mlx5_{n}.{entry.name}": "N/A (no PMA)\n" for n in range(8)
                                   for entry in TABLE})
    assert of(rule, snapshot(600, port_counters=no_agent),
              snapshot(port_counters=no_agent)).status is Status.SKIPPED
    assert of(rule, snapshot(600, port_counters=Capture(Outcome.DENIED)), EARLIER).status is Status.UNKNOWN
    assert of(rule, snapshot(600), None).status is Status.SKIPPED


# ---- links that come and go


def downed(number: int, seconds: float = 600, **files: str) -> Recording:
    return snapshot(seconds, port_sysfs=machine.ports(**{"mlx5_3.link_downed": f"{number}\n", **files}))


def test_three_losses_within_twelve_hours_are_flapping() -> None:
    assert of("port-flapping", downed(2), EARLIER).status is Status.PASS
    assert of("port-flapping", downed(3, 12 * 3600 + 1), EARLIER).status is Status.PASS
    result = of("port-flapping", downed(3, 12 * 3600), EARLIER)
    assert (findings_of(result) == "mlx5_3/1 (0000:43:00.0): lost its link 3 times in 12.0 h, expected fewer "
            "than 3")


def test_a_port_that_is_down_at_two_looks_four_minutes_apart_is_down_for_good() -> None:
    down = {"mlx5_3.state": "1: DOWN\n", "mlx5_3.phys_state": "2: Polling\n"}
    before = downed(1, 0, **down)
    result = of("port-down-since", downed(1, 240, **down), before)
    assert (findings_of(result) == "mlx5_3/1 (0000:43:00.0): DOWN, Polling for 4 minutes at least, expected "
            "ACTIVE")
    for other in (downed(1, 239, **down), downed(2, 240, **down), downed(1, 240)):
        assert of("port-down-since", other, before).status is Status.PASS
    assert of("port-down-since", downed(1, 240, **down), EARLIER).status is Status.PASS


# ---- which ports


def test_a_port_that_is_to_be_down_must_be_there_and_is_not_judged_otherwise() -> None:
    dark = machine.ports(**{"mlx5_3.state": "1: DOWN\n", "mlx5_3.phys_state": "3: Disabled\n",
                            "mlx5_3.rate": "10 Gb/sec (4X SDR)\n"})
    plans = {**PLANNED, "0000:43:00.0": PortPlan("compute", 3, expect="down")}
    for rule in ("port-count", "port-state", "port-rate", "port-width", "port-lid"):
        assert of(rule, snapshot(port_sysfs=dark), **plans).status is Status.PASS
    assert of("port-state", snapshot(port_sysfs=dark), **PLANNED).status is Status.FAIL
    gone = changed(dark, *[path for path in dark.files if "mlx5_3/" in path], outcome=Outcome.MISSING)
    assert of("port-count", snapshot(port_sysfs=gone), **plans).status is Status.FAIL


def test_virtual_functions_are_not_judged_beside_real_ones() -> None:
    with_virtual = machine.ports(10, **{"mlx5_8.state": "1: DOWN\n", "mlx5_9.lid": "0x0\n"})
    files = [f"/sys/class/infiniband/mlx5_{n}/device/physfn/uevent" for n in (8, 9)]
    seen = changed(with_virtual, *files, text="DRIVER=mlx5_core\n")
    for rule in ("port-count", "port-state", "port-lid"):
        assert of(rule, snapshot(port_sysfs=seen)).status is Status.PASS
        assert rule == "port-count" or of(rule, snapshot(port_sysfs=with_virtual)).status is Status.FAIL


# ---- reading

RATES = [entry for entry in TABLE if entry.meaning is GrowthMeaning.RATE and entry.devices == "*"]


@pytest.mark.parametrize(("fact", "probe", "part"), [
    ("ports", "port.sysfs", "mlx5_1/"), ("port_rate_counters", "port.counters", "symbol_error"),
    ("hcas", "hca.sysfs", "mlx5_1/"), ("hcas", "hca.sysfs", "umad1/"),
    ("hcas", "hca.sysfs", "uverbs1/"), ("adapter_bus", "gpu.pci", "/"),
    ("adapter_bus", "port.sysfs", "mlx5_1/device/uevent"),
])
def test_a_file_cut_at_any_byte_is_never_taken_for_the_whole(fact: str, probe: str, part: str) -> None:
    held = machine.captures()[probe]
    whole = build_fact(FACTS[fact], Captures(machine.recording()))
    for path in [path for path in held.files if part in path]:
        text = held.files[path].text
        for length in range(len(text)):
            cut = changed(held, path, outcome=Outcome.TRUNCATED, text=text[:length])
            assert build_fact(FACTS[fact],
                              Captures(machine.recording(**{probe.replace(".", "_"): cut}))) != whole, path


@given(text=st.text(max_size=60),
       name=st.sampled_from([path.rpartition("/")[2] for path in SYSFS.paths if "/ports/" in path]))
def test_whatever_a_file_holds_a_port_is_made_of_it(text: str, name: str) -> None:
    held = machine.ports(2)
    paths = [path for path in held.files if path.endswith(f"/{name}")]
    value = build_fact(FACTS["ports"],
                       Captures(machine.recording(port_sysfs=changed(held, *paths, text=text))))
    assert isinstance(value, tuple) and len(value) == 2


@given(text=st.text(max_size=30), name=st.sampled_from([entry.name for entry in RATES]))
def test_whatever_a_counter_holds_it_is_a_number_or_not_measured(text: str, name: str) -> None:
    held = machine.counters(2, **{f"mlx5_1.{name}": text})
    value = build_fact(FACTS["port_rate_counters"],
                       Captures(machine.recording(port_sysfs=machine.ports(2), port_counters=held)))
    assert isinstance(value, tuple) and len(value) == 2 * len(RATES)
    values = [reading(counter, "value") for counter in value]
    assert all(value >= 0 if isinstance(value, int) else isinstance(value, (Unmeasured, Unsupported))
               for value in values)


def test_every_rule_of_the_file_is_tested_here_or_with_the_skus_numbers() -> None:
    with_numbers = {"port-count", "port-state", "port-rate", "port-link-downed"}
    of_adapters = {"port-devices"}
    links = {"port-flapping", "port-down-since", "port-counter-full"}
    tables = {line[0] for line in (*PASSING, *FAILING)} | {line[0] for line in COUNTED}
    assert ids("port.yaml") == tables | with_numbers | of_adapters | links
