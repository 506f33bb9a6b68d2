"""What IPMI's datagrams and ipmitool's words are taken for, without any controller."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from inventory.text import clean
from provisioning.bmc.base import (
    BmcError,
    BmcErrorReason,
    BootTarget,
    HardwareInventory,
    HardwarePart,
    PowerState,
)
from provisioning.bmc.ipmi import messages, parse, rmcp
from provisioning.bmc.ipmi.tool import IpmitoolOutput


def pong(entities: int = 0x81) -> bytes:
    """ASF 2.0, 3.2.4.3."""
    return (bytes((6, 0, 0xFF, 6, 0, 0, 0x11, 0xBE, 0x40, 0, 0, 16, 0, 0, 0x11, 0xBE, 0, 0, 0, 0, entities,
                   0)) + bytes(6))


def answer(number: int, command: int, *data: int, code: int = 0) -> bytes:
    """A controller's answer outside a session (IPMI 2.0, 13.6 and 13.8)."""
    head, body = bytes((0x81, 0x1C)), bytes((0x20, number << 2, command, code, *data))
    message = head + bytes((-sum(head) & 0xFF,)) + body + bytes((-sum(body) & 0xFF,))
    return bytes((6, 0, 0xFF, 7)) + bytes(9) + bytes((len(message),)) + message


def test_the_question_is_the_one_that_the_specification_shows() -> None:
    # Asked by ipmitool 1.8.19 itself, with channel 0Eh and administrator, in the same form.
    assert rmcp.ask_capabilities(0)[14:] == bytes.fromhex("2018c88100388e03b6")
    assert rmcp.ping() == bytes.fromhex("0600ff06000011be804d0000")


def test_a_pong_counts_only_where_it_says_that_ipmi_is_spoken() -> None:
    assert rmcp.pong(pong())
    assert not rmcp.pong(pong(0x01))
    assert not rmcp.pong(rmcp.ping())


def test_capabilities_tell_the_version_and_whether_anybody_is_let_in() -> None:
    assert rmcp.capabilities(
        answer(5, 0x38, 1, 0x97, 0x04, 0x03, 0, 0, 0, 0), 5) == rmcp.Capabilities(v2=True, anonymous=False)
    assert rmcp.capabilities(
        answer(5, 0x38, 1, 0x17, 0x05, 0, 0, 0, 0, 0), 5) == rmcp.Capabilities(v2=False, anonymous=True)


def test_an_answer_to_another_question_is_none() -> None:
    whole = answer(5, 0x38, 1, 0x97, 4, 3, 0, 0, 0, 0)
    assert rmcp.capabilities(whole, 6) is None
    assert rmcp.capabilities(answer(5, 0x54, 1, 0x97, 4, 3), 5) is None
    assert rmcp.capabilities(whole[:-1] + bytes((whole[-1] ^ 1,)), 5) is None
    assert rmcp.capabilities(answer(5, 0x38, code=0xC1), 5) is None


def test_suites_are_read_across_the_pieces_of_their_list_and_a_makers_own_are_left_out() -> None:
    # IPMI 2.0, 22.15.2: C0h, number, algorithms; or C1h, number, three bytes of the maker's, algorithms.
    listed = bytes(
        (0xC0, 3, 0x01, 0x41, 0x81, 0xC1, 0x80, 0x57, 1, 0, 0x01, 0x41, 0xC0, 17, 0x03, 0x44, 0x81))
    assert rmcp.suites(listed) == (3, 17)
    assert rmcp.suites_part(answer(2, 0x54, 0x0E, *listed[:16]), 2) == listed[:16]
    assert rmcp.suites_part(answer(2, 0x54, code=0xC1), 2) == b""


@given(st.binary(max_size=80), st.integers(0, 63))
def test_no_datagram_is_more_than_no_answer(data: bytes, number: int) -> None:
    for head in (b"", bytes((6, 0, 0xFF, 7)), bytes((6, 0, 0xFF, 6, 0, 0, 0x11, 0xBE))):
        rmcp.pong(head + data)
        assert rmcp.capabilities(head + data, number) is None or len(data) > 20
        rmcp.suites_part(head + data, number)
    assert all(0 <= suite < 256 for suite in rmcp.suites(data))


# As lib/ipmi_chassis.c, ipmi_sdr.c and ipmi_fru.c of ipmitool 1.8.19 print it.
FLAGS = """Boot parameter version: 1
Boot parameter 5 is valid/unlocked
Boot parameter data: {data}
 Boot Flags :
   - Boot Flag {valid}
   - Options apply to {how}
   - BIOS EFI boot{space}
   - Boot Device Selector : {device}
   - Console Redirection control : System Default
"""


@pytest.mark.parametrize(("valid", "how", "device", "target", "once"), [
    ("Valid", "only next boot", "Force PXE", BootTarget.PXE, True),
    ("Valid", "all future boots", "Force Boot from default Hard-Drive", BootTarget.DISK, False),
    ("Valid", "all future boots", "No override", BootTarget.NONE, False),
    ("Invalid", "only next boot", "Force PXE", BootTarget.NONE, False),
])
def test_boot_flags_hold_only_where_they_are_valid(
    valid: str, how: str, device: str, target: BootTarget, once: bool,
) -> None:
    found = parse.boot(FLAGS.format(data="8004000000", valid=valid, how=how, device=device, space=" "))
    assert found is not None and (found.target, found.once) == (target, once)


def test_an_override_that_is_not_ours_is_not_taken_for_none() -> None:
    found = parse.boot(FLAGS.format(data="", valid="Valid", how="only next boot",
                                    device="Force Boot from Diagnostic Partition", space=""))
    assert found is not None and isinstance(found.target, Unmeasured)


def test_power_is_read_from_its_line_only() -> None:
    assert parse.power("Chassis Power is on\n") is PowerState.ON
    assert parse.power("Chassis Power is offended") is None


LISTED = """CPU1 Status      | 01h | ok  |  3.1 | Presence detected
CPU2 Status      | 02h | ok  |  3.2 | Presence detected, Thermal Trip
PS1 Status       | C8h | ok  | 10.1 | Presence detected
PS1 Input Power  | 58h | ok  | 10.1 | 1500 Watts
PS2 Status       | C9h | ok  | 10.2 | Presence detected, AC out-of-range, but present
PS3 Status       | CAh | ok  | 10.3 |{space}
PS3 Input Power  | 5Ah | ok  | 10.3 | 0 Watts
Fan1             | 30h | cr  | 29.1 | 0 RPM
Fan2             | 31h | ok  | 29.2 | 8400 RPM
Drive 0          | 60h | ok  |  4.1 | Drive Present, Drive Fault
Drive 1          | 61h | ok  |  4.2 | Device Absent
P1-DIMMA1        | 70h | ns  | 32.1 | No Reading
PS1 FRU          | 00h | ns  | 10.1 | Logical FRU @03h
BMC              | 00h | ok  |  7.1 | Static MC @ 20h
"""
PRINTED = """FRU Device Description : Builtin FRU Device (ID 0)
 Chassis Serial        : C1
 Product Serial        : S1

FRU Device Description : PS1 FRU (ID 3)
 Product Manufacturer  : Delta
 Product Name          : DPS-3000AB
 Product Serial        : 0000000000

FRU Device Description : PS2 FRU (ID 4)
 Device not present (Requested sensor, data, or record not found)
"""


def parts(found: HardwareInventory, kind: str) -> list[tuple[str, object, bool]]:
    held = found.parts[kind]
    assert isinstance(held, tuple), held
    return [(one.slot, one.health if isinstance(one.health, str) else None, one.present) for one in held]


def test_hardware_is_what_sensors_and_records_tell_and_no_more() -> None:
    found = parse.hardware(LISTED.format(space=" "), PRINTED)
    assert parts(found, "cpu") == [("CPU1", "OK", True), ("CPU2", "Critical", True)]
    # The third supply neither says that it is there, nor draws anything: it is not told of.
    assert parts(found, "psu") == [("PS1", "OK", True), ("PS2", "Warning", True)]
    assert parts(found, "fan") == [("Fan1", "Critical", True), ("Fan2", "OK", True)]
    assert parts(found, "drive") == [("Drive 0", "Critical", True), ("Drive 1", None, False)]
    assert isinstance(found.parts["dimm"], Unmeasured)
    assert found.parts["gpu"] is UNSUPPORTED
    supplies = found.parts["psu"]
    assert isinstance(supplies, tuple)
    assert supplies[0].model == "DPS-3000AB"
    assert isinstance(supplies[0].serial, Unmeasured)       # zeros are no number


def test_a_list_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="Err in cmd"):
        parse.hardware("Err in cmd get sensor sdr info\n", "")


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    parse.identity(text, text, text)
    parse.boot(text)
    parse.frus(text)
    try:
        found = parse.hardware(text, text)
    except ValueError:
        return
    assert all(
        not isinstance(held, tuple) or all(isinstance(one, HardwarePart) and one.slot == clean(one.slot)
                                           for one in held) for held in found.parts.values())


@given(st.lists(st.tuples(st.sampled_from(("3.1", "4.2", "10.1", "10.2", "29.1", "32.7", "7.1")),
                          st.sampled_from(("ok", "ns", "cr", "lnc")),
                          st.text(st.characters(exclude_characters="|", exclude_categories=("C", "Zl", "Zp")),
                                  max_size=30)), max_size=12))
def test_whatever_rows_say_each_kind_is_parts_or_not_measured(rows: list[tuple[str, str, str]]) -> None:
    found = parse.hardware("\n".join(f"S{at} | 01h | {state} | {entity} | {reading}"
                                     for at, (entity, state, reading) in enumerate(rows)), "")
    assert set(found.parts) == {"cpu", "gpu", "dimm", "drive", "nic", "switch", "psu", "fan"}
    assert () not in found.parts.values()       # nothing seen is never "has none"


SESSION = "Error: Unable to establish IPMI v2 / RMCP+ session\n"


@pytest.mark.parametrize(
    ("text", "kind", "done"),
    [("> RAKP 2 HMAC is invalid\n" + SESSION, BmcErrorReason.CREDENTIALS, False),
     ("RAKP 2 message indicates an error : unauthorized name\n" + SESSION, BmcErrorReason.CREDENTIALS, False),
     ("RAKP 2 message indicates an error : unauthorized role requested\n" + SESSION, BmcErrorReason.DENIED,
      False),
     ("RAKP 2 message indicates an error : insufficient resources for session\n" + SESSION,
      BmcErrorReason.BUSY, False),
     ("> Error: no response from RAKP 1 message\n" + SESSION, BmcErrorReason.TIMEOUT, False),
     ("Error in open session response message : invalid authentication algorithm\n\n" + SESSION,
      BmcErrorReason.BROKEN, False),
     ("Get Auth Capabilities error\nError issuing Get Channel Authentication Capabilities request\n"
          + SESSION, BmcErrorReason.UNREACHABLE, False),
     ("Address lookup for bmc1 failed\nCould not open socket!\n" + SESSION, BmcErrorReason.UNREACHABLE,
      False), ("This BMC does not support IPMI v2 / RMCP+\n" + SESSION, BmcErrorReason.UNSUPPORTED, False),
     (SESSION, BmcErrorReason.TIMEOUT, False),
     ("Set Session Privilege Level to OPERATOR failed: Unknown (0x81)\n" + SESSION, BmcErrorReason.DENIED,
      False),
     ("Set Chassis Power Control to Up/On failed: Insufficient privilege level\n", BmcErrorReason.DENIED,
      False),
     ("Set Chassis Power Control to Up/On failed: Command not supported in present state\n",
      BmcErrorReason.REFUSED, False),
     ("Set Chassis Power Control to Up/On failed: Node busy\n", BmcErrorReason.BUSY, False),
     ("Set Chassis Power Control to Up/On failed: Unspecified error\n", BmcErrorReason.BROKEN, None),
     ("Unable to set Chassis Power Control to Up/On\n", BmcErrorReason.BROKEN, None),
     ("Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x8 rsp=0xc1): Invalid command\n",
      BmcErrorReason.UNSUPPORTED, False),
     ("Unable to open password file /dev/fd/5\n", BmcErrorReason.NO_SECRET, False),
     ("", BmcErrorReason.BROKEN, None)])
def test_messages_of_ipmitool_mean_what_its_source_means(
    text: str, kind: BmcErrorReason, done: bool | None,
) -> None:
    found = messages.error(IpmitoolOutput(1, "", text))
    assert isinstance(found, BmcError)
    assert (found.wrong, found.done) == (kind, done)
    assert "\n" not in found.message and len(found.message) < 200


@given(st.text(max_size=400))
def test_any_message_becomes_one_printable_line(text: str) -> None:
    found = messages.error(IpmitoolOutput(1, "", text))
    assert found.message == clean(found.message)
