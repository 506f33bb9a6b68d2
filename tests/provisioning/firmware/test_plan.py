"""Which machines are updated, in which order, how many at once; and payloads that are compared first."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.firmware import BMC, ComponentVersion, MachineFirmware
from healthcheck.store.firmwaresteps import FirmwareStep
from inventory.errors import UsageError
from inventory.model import Bmc, Node, Speaks
from provisioning.bmc.base import ChangeEnd, EarlierChange, PowerState
from provisioning.bmc.redfish.update import multipart, update_ways
from provisioning.bringup.policy.model import FirmwarePayload, PowerTimes
from provisioning.firmware.decide import Next, UpdateReading, UpdateTimes, decide
from provisioning.firmware.drift import FleetMachine, judged
from provisioning.firmware.payload import image_of
from provisioning.firmware.plan import MachineUpdate, planned, waves
from tests.provisioning.firmware.test_drift import policy

HAS = Bmc("198.51.100.7", "root")
TIMES = UpdateTimes(100, 50, PowerTimes(5, 5, 60))


def test_what_drifts_and_has_a_payload_is_planned_and_all_else_says_why(tmp_path: Path) -> None:
    wanted_of = policy(
        tmp_path, f'- {{id: bios, component: bios, exactly: "2", payload: {{file: a, sha256: {"0" * 64}}}}}\n'
                  '- {id: psu, component: psu, exactly: "2"}\n')

    def of(node: str, bios: str | None, psu: str) -> FleetMachine:
        told = (ComponentVersion("bios", "bios", bios, 1.0, BMC, ""),
                ComponentVersion("PSU1", "psu", psu, 1.0, BMC))
        return FleetMachine(node, None, MachineFirmware("Dell", told, {BMC: 1.0}))

    nodes = {"n1": Node("n1", bmc=HAS), "n2": Node("n2", bmc=HAS), "n3": Node("n3"),
             "n4": Node("n4", bmc=Bmc("198.51.100.8", "root", speaks=Speaks.IPMI)),
             "n5": Node("n5", bmc=HAS)}
    found = [judged(one, wanted_of) for one in (of("n1", "1", "1"), of("n2", "2", "2"), of("n3", "1", "2"),
                                                of("n4", "1", "2"), of("n5", None, "2"))]
    plan = planned(found, nodes, wanted_of, "*")
    assert [[one.node.name for one in wave] for wave in plan.waves] == [["n1"]]
    assert ([entry.id for entry in plan.waves[0][0].entries] == ["bios"]
            and plan.waves[0][0].now == {"bios": "bios 1"})
    assert {(node, entry): why for node, entry, why in plan.left} == {
        ("n1", "psu"): "no `payload:` says by which file",
        ("n3", "bios"): "the inventory names no controller for it (`bmc:`)",
        ("n4", "bios"): "its controller is asked over IPMI, which takes no firmware",
        ("n5", "bios"): "its version is unknown: not read: "}
    assert planned(found, nodes, wanted_of, "psu").waves == ()


@given(st.lists(st.sampled_from(["p1", "p2", ""]), max_size=40), st.integers(1, 8),
       st.none() | st.integers(1, 3))
def test_one_goes_first_and_no_domain_has_more_at_once_than_it_may(domains: list[str], at_once: int,
                                                                   of_domain: int | None) -> None:
    updates = [MachineUpdate(Node(f"n{at}", power=domain or None), (), {})
               for at, domain in enumerate(domains)]
    found = waves(updates, at_once, of_domain)
    assert sorted(one.node.name for wave in found for one in wave) == sorted(one.node.name for one in updates)
    assert not updates or len(found[0]) == 1
    for wave in found[1:]:
        assert 1 <= len(wave) <= at_once
        if of_domain is not None:
            assert all(count <= of_domain for count in Counter(one.domain for one in wave).values())


def test_a_payload_of_another_digest_or_that_cannot_be_read_is_refused_before_anything_is_sent(
        tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"firmware")
    digest = hashlib.sha256(b"firmware").hexdigest()
    image = image_of("bios", FirmwarePayload(file, None, digest), staged=True)
    assert (image.data, image.name, image.url, image.staged) == (b"firmware", "a.bin", None,
                                                                 True) and "firmware" not in repr(image)
    with pytest.raises(UsageError, match=r"has the digest .* nothing was sent"):
        image_of("bios", FirmwarePayload(file, None, "0" * 64), staged=True)
    with pytest.raises(UsageError, match=r"payload of bios: .*none.bin cannot be read"):
        image_of("bios", FirmwarePayload(tmp_path / "none.bin", None, digest), staged=True)
    with pytest.raises(UsageError, match="cannot be read: expected an http"):
        image_of("bios", FirmwarePayload(None, f"file://{file}", digest), staged=True)


def step(name: str, done: bool | None, at: float = 10.0) -> FirmwareStep:
    return FirmwareStep(1, "n1", "e", "t", name, at, at if done is not None else None, done, "said", 1)


def look(*, fits: bool = False, on: bool = True, drifts: bool = True,
         changes: tuple[EarlierChange, ...] = ()) -> UpdateReading:
    return UpdateReading(fits, drifts, "bios 1", PowerState.ON if on else PowerState.OFF, changes)


@pytest.mark.parametrize(("seen", "steps", "now", "wanted"), [
    (look(), (), 0.0, Next.SEND), (look(drifts=False), (), 0.0, Next.FAILED),
    (look(fits=True), (), 0.0, Next.DONE),
    (look(), (step("send", None),), 11.0, Next.FAILED), (look(), (step("send", False),), 11.0, Next.FAILED),
    (look(), (step("send", True),), 11.0, Next.OFF), (look(on=False), (step("send", True),), 11.0, Next.ON),
    (look(), (step("send", True), step("off", None)), 11.0, Next.WAIT),
    (look(), (step("send", True), step("off", None)), 99.0, Next.FAILED),
    (look(on=False), (step("send", True), step("off", None)), 11.0, Next.ON),
    (look(), (step("send", True), step("off", True), step("on", True)), 11.0, Next.WAIT),
    (look(), (step("send", True), step("off", True), step("on", True)), 99.0, Next.FAILED),
    (look(fits=True, on=False), (step("send", True), step("off", True)), 11.0, Next.ON),
    (look(changes=(EarlierChange("x", ChangeEnd.RUNNING, "30%"),)), (step("send", None),), 11.0, Next.WAIT),
    (look(changes=(EarlierChange("x", ChangeEnd.RUNNING, "30%"),)), (step("send", None),), 999.0,
     Next.FAILED)])
def test_the_next_step_follows_from_what_was_done_and_what_shows(
    seen: UpdateReading, steps: tuple[FirmwareStep, ...], now: float, wanted: Next,
) -> None:
    assert decide(seen, steps, "n1", TIMES, now, own=False).next is wanted


_STEPS = st.lists(st.builds(step, st.sampled_from(["send", "off", "on"]), st.none() | st.booleans(),
                            st.floats(0, 100)), max_size=5)


@given(_STEPS, st.booleans(), st.booleans(), st.booleans(), st.floats(0, 1000), st.booleans())
def test_an_image_that_may_have_been_sent_is_never_sent_again_and_only_a_look_ends_it(
    steps: list[FirmwareStep], fits: bool, on: bool, drifts: bool, now: float, own: bool,
) -> None:
    decision = decide(look(fits=fits, on=on, drifts=drifts), steps, "n1", TIMES, now, own=own)
    if any(one.step == "send" for one in steps):
        assert decision.next is not Next.SEND
    assert (decision.next is Next.DONE) <= fits and (decision.next is Next.FAILED) == bool(decision.hand)
    assert not (own and decision.next is Next.OFF)


def test_a_push_of_two_parts_says_its_length_and_its_file_name_is_harmless() -> None:
    kind, body = multipart({}, 'a"; x="\r\nb.bin', b"\x00\xff--")
    boundary = kind.partition("boundary=")[2]
    assert body.startswith(f"--{boundary}\r\n".encode()) and body.endswith(f"\r\n--{boundary}--\r\n".encode())
    assert b'filename="axb.bin"' in body and b"\x00\xff--\r\n" in body


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=8) | st.integers(),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["Actions", "#UpdateService.SimpleUpdate", "target",
                                         "MultipartHttpPushUri", "HttpPushUri", "SupportedValues",
                                         "@Redfish.OperationApplyTimeSupport", "HttpPushUriOptions",
                                         "HttpPushUriApplyTime", "ApplyTime"]), inner, max_size=4),
                    max_leaves=12))
def test_any_update_service_is_read(document: object) -> None:
    found = update_ways(document if isinstance(document, dict) else {}, "/redfish/v1/UpdateService")
    for path in (found.simple, found.multipart, found.push):
        assert path is None or path.startswith("/")


def test_a_service_without_updates_has_no_way() -> None:
    nothing = update_ways({}, "/redfish/v1/UpdateService")
    assert nothing.enabled and nothing.simple is nothing.multipart is nothing.push is None
