"""What others wrote or sent is read as documented, or refused in one line."""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inventory.errors import InventoryError, MusterError, UsageError
from inventory.text import clean
from provisioning.discover import deliverylist, leases, serviceroot
from provisioning.discover.model import Delivered, DhcpLease, mac, number
from provisioning.discover.ranges import MOST, addresses

NOW = 1_795_000_000.0       # 2026-11-18 08:26:40 UTC


# Ranges.

def test_a_network_is_its_hosts_and_a_span_both_of_its_ends() -> None:
    assert addresses(["10.1.0.0/30"]) == ("10.1.0.1", "10.1.0.2")
    assert addresses(["10.1.0.254-10.1.1.1"]) == ("10.1.0.254", "10.1.0.255", "10.1.1.0", "10.1.1.1")
    assert addresses(
        ["10.1.0.7", "10.1.0.6/31", "fd00::1-fd00::2"]) == ("10.1.0.7", "10.1.0.6", "fd00::1", "fd00::2")
    assert len(addresses(["10.1.0.0/16"])) == MOST - 2


@pytest.mark.parametrize("text",
                         ["", "10.1.0.0/33", "10.1.0.1/24", "10.1.0.9-10.1.0.1", "10.1.0.1-fd00::1", "10.1.0",
                          "*", "10.1.0.1,2", "gpu001"])
def test_what_names_no_addresses_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="expected a network") as caught:
        addresses([text])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "texts",
    [["10.0.0.0/15"], ["0.0.0.0/0"], ["::/0"], ["10.0.0.0/16", "10.1.0.0/16"], ["10.0.0.0-10.255.255.255"]])
def test_more_than_65536_addresses_are_never_asked(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="over 65536"):
        addresses(texts)


@given(st.lists(st.integers(0, 2**32 - 1).map(lambda at: str(ipaddress.IPv4Address(at))), max_size=20))
def test_addresses_are_each_once(texts: list[str]) -> None:
    assert addresses(texts) == tuple(dict.fromkeys(texts))


@given(st.text("0123456789./-:abcdef ", max_size=40))
@example("::/108")
def test_any_range_is_addresses_or_a_usage_error(text: str) -> None:
    try:
        found = addresses([text])
    except UsageError:
        return
    assert 0 < len(found) <= MOST and all(ipaddress.ip_address(each) for each in found)


# Leases. The first is written as the example in dhcpd.leases(5) is, with the log's way to say a thing again.

ISC = """# The format of this file is documented in the dhcpd.leases(5) manual page.
# This lease file was written by isc-dhcp-4.4.3-P1

# authoring-byte-order entry is generated, DO NOT DELETE
authoring-byte-order little-endian;

server-duid "\\000\\001\\000\\001%>\\347";

failover peer "dhcp" state {
  my state normal at 2 2026/11/17 10:00:00;
}
lease 10.1.0.21 {
  starts 2 2026/11/17 10:00:00;
  ends 2 2026/11/17 22:00:00;
  binding state free;
  hardware ethernet 7c:c2:55:00:00:01;
}
lease 10.1.0.22 {
  starts epoch 1794990000; # Wed Nov 18 05:40:00 2026
  ends epoch 1795090000; # Thu Nov 19 09:26:40 2026
  binding state active;
  next binding state free;
  rewind binding state free;
  hardware ethernet 7c:c2:55:00:00:02;
  uid "\\001|\\302U}{;\\000\\002";
  set vendor-class-identifier = "udhcp 1.30";
  client-hostname "BMC-02";
}
lease 10.1.0.21 {
  starts 3 2026/11/18 01:00:00;
  ends never;
  binding state active;
  hardware ethernet 7c:c2:55:00:00:0a;
  client-hostname "bmc-10";
  on expiry { set gone = "yes"; log ("x;y"); }
}
lease 10.1.0.23 { ends 3 2026/11/18 08:00:00; binding state active; hardware ethernet 7C:C2:55:00:00:03; }
lease 10.1.0.24 {
  ends never;
  abandoned;
}
ia-na "\\001" {
  cltt 3 2026/11/18 01:00:00;
  iaaddr fd00::5 { binding state active; preferred-life 60; ends 3 2026/11/18 08:00:00; }
}
"""
# dnsmasq 2.90, src/lease.c, lease_update_file; the line of its own DUID, and an IPv6 lease, follow.
DNSMASQ = """1795090000 7c:c2:55:00:00:02 10.1.0.22 BMC-02 01:7c:c2:55:00:00:02
0 7c:c2:55:00:00:0a 10.1.0.21 bmc-10 *
1794990000 06-7c:c2:55:00:00:03 10.1.0.23 * ff:00
duid 00:01:00:01:2c:11
1795090000 1234 fd00::22 bmc-02 00:01:00
"""
# Kea 2.6's own header; its log appends, and takes a lease away by a lifetime of 0.
KEA = """address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state,\
user_context,pool_id
10.1.0.22,7c:c2:55:00:00:02,,3600,1794000000,1,0,0,bmc-02,0,,0
10.1.0.22,7c:c2:55:00:00:02,01:7c,3600,1795090000,1,0,0,BMC-02.example.,0,,0
10.1.0.21,7c:c2:55:00:00:0a,,4294967295,4294967295,1,0,0,bmc-10,0,,0
10.1.0.23,7c:c2:55:00:00:03,,3600,1794990000,1,0,0,,2,,0
10.1.0.25,7c:c2:55:00:00:05,,3600,1795090000,1,0,0,a&#x2cb,1,,0
10.1.0.26,7c:c2:55:00:00:06,,3600,1795090000,1,0,0,,0,,0
10.1.0.26,7c:c2:55:00:00:06,,0,1795090000,1,0,0,,0,,0
"""


def by_address(text: str) -> dict[str, DhcpLease]:
    return {one.address: one for one in leases.read(text, "leases", NOW)}


@pytest.mark.parametrize(
    "text", ["x\n" + "\n" * 60_000, "lease 10.0.0.1 {\n" + '\\"' * 60_000, 'lease 10.0.0.1 {\n "' + "\\"])
def test_what_is_no_lease_file_is_refused_in_no_time(text: str) -> None:
    began = time.thread_time()
    with pytest.raises(InventoryError):
        leases.read(text, "leases", NOW)
    assert time.thread_time() - began < 2


@pytest.mark.parametrize(("text", "name", "ended", "more"), [
    (ISC, "bmc-02", 1794988800.0, DhcpLease("10.1.0.24", "", "", None, False)),
    (DNSMASQ, "bmc-02", 1794990000.0, DhcpLease("fd00::22", "", "bmc-02", 1795090000.0, True)),
    (KEA, "bmc-02.example", 1794990000.0,
     DhcpLease("10.1.0.25", "7c:c2:55:00:00:05", "a,b", 1795090000.0, False)),
], ids=["of ISC's the last declaration of an address holds", "dnsmasq writes a line each",
        "Kea's log takes leases away again"])
def test_each_server_s_leases(text: str, name: str, ended: float, more: DhcpLease) -> None:
    assert by_address(text) == {
        "10.1.0.22": DhcpLease("10.1.0.22", "7c:c2:55:00:00:02", name, 1795090000.0, True),
        "10.1.0.21": DhcpLease("10.1.0.21", "7c:c2:55:00:00:0a", "bmc-10", None, True),
        "10.1.0.23": DhcpLease("10.1.0.23", "7c:c2:55:00:00:03", "", ended, False),
        more.address: more,
    }


@pytest.mark.parametrize(("text", "said"), [
    ("hello world\n", "leases:1:1: 'hello world' is no lease"),
    ("lease 10.1.0.1 {\n  ends never;\n", "leases:1:1: the declaration that begins here does not end"),
    ("\nlease 10.1.0 {\n}\n", "leases:2:1: expected lease ADDRESS"),
    ("address,hwaddr,state\n10.1.0.1,,0\n", "leases:1:1: the header is none of Kea's"),
    (KEA + "10.1.0.x,,,1,1,,,,,0\n", "leases:9:1: this row is no lease"),
])
def test_a_file_that_is_none_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(InventoryError) as caught:
        leases.read(text, "leases", NOW)
    assert str(caught.value).startswith(said)


@given(
    st.one_of(st.text(max_size=200),
              st.lists(st.sampled_from(("lease ", "10.1.0.1 ", "{ ", "} ", "; ", '"', "ends never",
                                        "ends epoch 1", "binding state active", "hardware ethernet ",
                                        "aa:bb:cc:dd:ee:ff", "client-hostname", "\x1b[31m", "\\", "#", "\n")),
                       max_size=40).map("".join).map("lease {".__add__),
              st.text("0123456789 :.*af\n", max_size=120),
              st.text(",0123456789.af\n\"&#x2c", max_size=120).map(KEA.__add__)))
def test_any_file_is_leases_or_one_line(text: str) -> None:
    try:
        found = leases.read(text, "leases", NOW)
    except InventoryError as problem:
        assert "\n" not in str(problem)
        return
    for one in found:
        assert str(ipaddress.ip_address(one.address)) == one.address and one.name == clean(
            one.name, 253) and one.mac == mac(one.mac)
    assert len({one.address for one in found}) == len(found)


# Delivery lists.

def test_a_list_is_read_by_what_its_columns_are_called_and_others_are_passed_over() -> None:
    text = ("Serial Number;Hostname;Rack;U;BMC MAC;Model;PO\r\n"
            " s1 ;gpu001;r07;12;7CC2.5500.0001;XE9680;4711\r\n"
            ";;;;;;\r\n"
            "S2;;;;;;\r\n")
    assert deliverylist.parse(text, "rack7.csv") == (
        Delivered(2, "S1", "gpu001", "r07", "12", "7c:c2:55:00:00:01", "XE9680"), Delivered(4, "S2"))
    assert deliverylist.parse("Nr,Was\nS1,x\n", "a.csv", {"Nr": "serial"}) == (Delivered(2, "S1"),)


@pytest.mark.parametrize(("text", "mapping", "said"), [
    ("name,rack\ngpu001,r1\n", {}, "a.csv:1:1: no column has serial numbers"),
    ("serial,name\n,gpu001\n", {}, "a.csv:2:1: the row has no serial number"),
    ("serial,name\nN/A,gpu001\n", {}, "a.csv:2:1: the row has no serial number"),
    ("serial,mac\nS1,xx\n", {}, "a.csv:2:1: 'xx' is no MAC address"),
    ("serial,sn\nS1,S2\n", {}, "a.csv:1:2: two columns are serial"),
    ("serial\n", {}, "a.csv: names nothing that was delivered"),
    ("serial\nS1\n", {"x": "serial"}, "--map 'x': the list has no such column"),
    ("serial\nS1\n", {"serial": "cereal"}, "--map 'serial': 'cereal' is none of"),
])
def test_a_list_that_cannot_be_used_is_refused_with_its_line(
    text: str, mapping: dict[str, str], said: str,
) -> None:
    with pytest.raises(MusterError) as caught:
        deliverylist.parse(text, "a.csv", mapping)
    assert str(caught.value).startswith(said)


@given(st.one_of(st.text(max_size=200),
                 st.text("S1,;\"\n serialnm\x1b", max_size=80).map("serial,name,rack\n".__add__)))
def test_any_list_is_rows_or_one_line(text: str) -> None:
    try:
        found = deliverylist.parse(text, "a.csv")
    except MusterError as problem:
        assert "\n" not in str(problem)
        return
    assert found and all(row.serial and row.serial == number(row.serial) for row in found)


# Numbers.

def test_what_makers_write_where_there_is_no_number_is_none() -> None:
    for text in ("", "0000000", "To be filled by O.E.M.", "Default string", "N/A", "None",
                 "System Serial Number", "0123456789", "00000000-0000-0000-0000-000000000000",
                 "92384634-2938-2342-8820-489239905423", None, 7):
        assert number(text) == ""
    assert number(" abc12 ") == "ABC12"


def test_a_mac_address_is_read_however_it_is_written() -> None:
    for text in ("7C:C2:55:00:00:01", "7cc2.5500.0001", "7c-c2-55-00-00-01", "7cc255000001"):
        assert mac(text) == "7c:c2:55:00:00:01"
    for other in ("", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "7c:c2:55:00:00", "gg:gg:gg:gg:gg:gg", None):
        assert mac(other) == ""


# Service roots.

def answer(body: bytes | str | Mapping[str, object], status: str = "200 OK", *headers: str) -> bytes:
    data = json.dumps(body).encode() if isinstance(
        body, Mapping) else body if isinstance(body, bytes) else body.encode()
    return "\r\n".join(
        (f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(data)}", "", "")).encode() + data


# As iDRAC 9 answers before a login (DellServiceRoot in Oem), and iLO 5 (HpeiLOServiceExt).
IDRAC = {"@odata.type": "#ServiceRoot.v1_11_0.ServiceRoot", "RedfishVersion": "1.15.0", "Vendor": "Dell",
         "Product": "Integrated Dell Remote Access Controller",
         "Oem": {"Dell": {"ServiceTag": "abc1234", "ManagerMACAddress": "D0:96:69:51:d4:70", "IsBranded": 0}}}
ILO = {
    "RedfishVersion": "1.13.0", "UUID": "62c1ef1e-1e1c-5f0d-9a3a-000000000001",
    "Oem": {
        "Hpe": {
            "Manager": [{"ManagerType": "iLO 6", "ManagerFirmwareVersion": "1.61", "HostName": "ILO2M2"}]}}}


def test_a_service_root_says_who_it_is_before_a_login() -> None:
    assert serviceroot.parse(answer(IDRAC)) == serviceroot.Root(
        "Dell", "Integrated Dell Remote Access Controller", serial="ABC1234", mac="d0:96:69:51:d4:70")
    assert serviceroot.parse(answer(ILO)) == serviceroot.Root(
        "Hpe", "iLO 6", "62C1EF1E-1E1C-5F0D-9A3A-000000000001", "1.61", host="ilo2m2")


def test_chunks_are_put_together() -> None:
    body = json.dumps(IDRAC).encode()
    chunked = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + f"{len(body):x}\r\n".encode() + body
               + b"\r\n0\r\n\r\n")
    assert serviceroot.parse(chunked).vendor == "Dell"


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"", "no whole HTTP"), (b"SSH-2.0-OpenSSH_9.2\r\n", "no whole HTTP"), (answer("<html>"), "no JSON"),
     (answer("[]"), "no service root"), (answer({"a": 1}), "no service root"),
     (answer("", "401 Unauthorized"), "HTTP 401"), (answer("[" * 5000), "no JSON"),
     (answer("", "301 Moved", "Location: https://\x1b[31mx/"), "redirects to https://\\x1b"),
     (answer(json.dumps(IDRAC)[:-5]), "no JSON"),
     (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "cut off"),
     (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 500, "no whole HTTP")])
def test_what_is_no_service_root_is_named(data: bytes, said: str) -> None:
    with pytest.raises(serviceroot.NotRedfish) as caught:
        serviceroot.parse(data)
    assert said in str(caught.value) and str(caught.value) == clean(str(caught.value))


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(("Oem", "Dell", "Hpe", "Manager", "Vendor", "Product", "UUID",
                                         "ServiceTag", "HostName")), inner, max_size=5)), max_leaves=12)


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=100).map(b"HTTP/1.1 200 OK\r\n".__add__),
                 st.dictionaries(st.sampled_from(("Oem", "Vendor", "Product", "UUID")), _JSON).map(
                     lambda body: answer({**body, "RedfishVersion": "1.0"}))))
def test_any_bytes_are_a_root_or_none(data: bytes) -> None:
    serviceroot.whole(data)
    try:
        found = serviceroot.parse(data)
    except serviceroot.NotRedfish as problem:
        assert str(problem) == clean(str(problem))
        return
    assert all(text == clean(text) and len(text) <= 80
               for text in (found.vendor, found.product, found.uuid, found.serial, found.host))
