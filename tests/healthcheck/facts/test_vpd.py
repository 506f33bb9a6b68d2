"""Vital product data: part and serial number as the specification lays them out, and whatever else a device
may say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.components import hardware_of
from healthcheck.facts.values import UNSUPPORTED, reading
from healthcheck.facts.vpd import VpdLabels, labels
from healthcheck.model.recording import Capture, FileCapture, Outcome
from healthcheck.triage.lots import ADAPTER, PartLot
from healthcheck.triage.partslist import by_guid, guid_key, parse, parts_of
from provisioning.demo.vpd import vital_product_data
from tests.healthcheck import machine

# A name, a read-only part and a writable one, as in the specification's own example.
HEAD = b"\x82\x0b\x00ABC Adapter\x90\x21\x00PN\x086181682ASN\x0800194583EC\x04000ARV\x01"
EXAMPLE = HEAD + bytes((-sum(HEAD) & 0xFF,)) + b"\x91\x05\x00RW\x02\x00\x00\x78"
WORDS = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", max_size=40)
PATH = "/sys/class/infiniband/mlx5_0/device/vpd"


def test_part_and_serial_number_are_read_beside_other_fields() -> None:
    assert len(HEAD[17:]) == 0x21 - 1 and labels(EXAMPLE) == VpdLabels("ABC Adapter", "6181682A", "00194583")


@pytest.mark.parametrize(("data", "why"), [
    (b"", "no end"), (b"\x78", "no read-only part"), (EXAMPLE[:-1], "no end"), (EXAMPLE[:30], "no end"),
    (b"\xff" * 64, "no end"),
    (EXAMPLE.replace(b"6181682A", b"6181682B"), "checksum"),
    (b"\x90\x06\x00PN\x09abc\x78", "longer than its resource"),
    (b"\x90\x02\x00PN\x78", "longer than its resource"), (b"\x90\x04\x00RV\x01\x43\x78", "checksum"),
    (b"\x90\x04\x00RV\x01\x00", "checksum"),
    (b"\x90\x04\x00PN\x01\xff\x78", "ascii"), (b"\x90\x03\x00RV\x00\x78", "checksum")])
def test_what_is_not_in_the_format_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        labels(data)


def test_small_resources_are_passed_over_and_a_missing_checksum_is_believed() -> None:
    assert labels(b"\x0f" + b"\xff" * 7 + b"\x0b" + b"\xff" * 3
                  + b"\x90\x07\x00SN\x04 A1\x00\x78rest") == VpdLabels("", "", "A1")


@given(WORDS, WORDS, WORDS)
def test_what_was_written_is_read_back(product: str, part: str, serial: str) -> None:
    assert labels(vital_product_data(product, part, serial)) == VpdLabels(product, part, serial)


@given(st.binary(max_size=80) | st.builds(lambda at, byte: EXAMPLE[:at] + bytes((byte,)) + EXAMPLE[at + 1:],
                                          st.integers(0, len(EXAMPLE)), st.integers(0, 255)))
def test_any_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    try:
        found = labels(data)
    except ValueError:
        return
    assert found.part.isascii() and found.serial.isascii()


def captured(data: bytes | None, outcome: Outcome = Outcome.DONE) -> Captures:
    files = {} if data is None else {PATH: FileCapture(outcome, data.decode("utf-8", "surrogateescape"))}
    return Captures(machine.recording(hca_vpd=Capture(Outcome.DONE, files=files)))


@pytest.mark.parametrize(("captures", "part", "serial"), [
    (captured(vital_product_data("x", "MCX75310", "MT2314X1")), "MCX75310", "MT2314X1"),
    (captured(vital_product_data("x", "", "")), UNSUPPORTED, UNSUPPORTED),
    (captured(None), UNSUPPORTED, UNSUPPORTED),
    (captured(b"", Outcome.DENIED), "permission denied", "permission denied"),
    (captured(b"\x82"), "not in the documented format", "not in the documented format"),
    (Captures(machine.recording()), "hca.vpd", "hca.vpd")])
def test_an_adapter_has_what_its_maker_wrote_onto_it_or_says_why_not(captures: Captures, part: object,
                                                                     serial: object) -> None:
    """And the other readings of it are as they are without."""
    first = build_fact(FACTS["hcas"], captures)[0]
    for name, wanted in (("part", part), ("serial", serial)):
        found = reading(first, name)
        assert found == wanted or str(wanted) in str(found), found
    assert first.firmware == "28.39.1002"


def test_the_lot_of_an_adapter_is_found_by_its_serial_number_in_the_node_and_in_the_subnet() -> None:
    captures = captured(vital_product_data("x", "MCX75310", "MT2314X1"))
    now = hardware_of(machine.recording(), captures)
    assert (now.parts["mlx5_0"]["adapter_part"],
            now.parts["mlx5_0"]["adapter_serial"]) == ("MCX75310", "MT2314X1")
    delivered = parse("serial,part,lot\nmt2314x1,MCX75310,W12\n", "parts.csv")
    (found,) = [part for part in parts_of({"gpu001": now}, delivered)["gpu001"] if part.lot.date]
    assert (found.kind, found.device, found.lot) == (ADAPTER, "mlx5_0", PartLot("", "MCX75310", "W12"))
    assert by_guid([now], delivered)[guid_key(now.parts["mlx5_0"]["guid"])] == PartLot("", "MCX75310", "W12")
