"""Whether the machine that answers by a name is the one that is meant; pure. Hardware proves more than names:
the controller's serial number was read over another cable. Names and machine-id come with an image."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.nodeset import fold
from provisioning.base.identity import NodeIdentity, number, uuid

# Names that installers give, which say nothing.
_FRESH = frozenset(
    {
        "", "(none)", "localhost", "localhost4", "localhost6", "ubuntu", "debian", "rocky", "almalinux",
        "centos", "fedora", "rhel", "linux", "install", "installer", "node", "host", "server"})


def mixed(who: NodeIdentity, others: Mapping[str, NodeIdentity], boards: Mapping[str, Mapping[str, str]],
          names: Collection[str]) -> Iterator[Trouble]:
    """What is doubled or swapped about one machine. `others` are the rest as far as they were seen, `boards`
    what controllers say of each (serial, uuid), `names` all names of the inventory."""
    proof = proven(who, boards.get(who.node, {}))
    if proof is False:
        yield _other_board(who, boards)
        return
    twins = sorted(name for name, other in others.items() if _one(who, other))
    wrong = [name for name in twins
             if proof is not True and not (_called(who, who.node) and not _called(others[name], name))]
    if wrong:
        # The same words for each of them, so that they are one line.
        them = fold([who.node, *wrong])
        yield Trouble(f"the addresses of {them} reach the same machine ({_text(who)})", Owner.OPERATOR,
                      "correct the address in the inventory, DHCP or DNS, then: muster bringup retry "
                      f"{shlex.quote(them)}", "node", serial=who.serial)
        return
    rest = {name: other for name, other in others.items() if name not in twins}
    yield from _image(
        who, sorted(name for name, other in rest.items() if who.machine and other.machine == who.machine))
    yield from _name(who, rest, names, proof is True)


def proven(who: NodeIdentity, board: Mapping[str, str]) -> bool | None:
    """Whether its board is the one that its controller tells of; None where one of them does not say."""
    serial = number(board.get("serial", ""))
    if serial and who.serial:
        return serial.casefold() == who.serial.casefold()
    name = uuid(board.get("uuid", ""))
    return who.uuid in (name, swapped(name)) if name and who.uuid else None


def swapped(name: str) -> str:
    """A UUID with three fields reversed, as SMBIOS and IPMI disagree on them (DSP0134, 7.2.1)."""
    fields = name.split("-")
    if len(fields) != 5:
        return name
    turned = (bytes.fromhex(field)[::-1].hex() for field in fields[:3])
    return "-".join((*turned, *fields[3:]))


def _other_board(who: NodeIdentity, boards: Mapping[str, Mapping[str, str]]) -> Trouble:
    again = f"then: muster bringup retry {who.node}"
    owner = next((name for name, board in boards.items() if name != who.node and proven(who, board)), None)
    there = boards[who.node].get("serial") or boards[who.node].get("uuid", "")
    what = f"its controller says {there}, and behind its address answers {who.serial or who.uuid}"
    if owner is not None:
        return Trouble(
            f"{what}, which is {owner}: are the cables of {who.node} and {owner} swapped?", Owner.DATACENTRE,
            f"put the network or BMC cables of {who.node} and {owner} as planned, {again},{owner}", "cable",
            serial=who.serial)
    return Trouble(
        f"{what}: do BMC and network cables lead to two machines?", Owner.DATACENTRE,
        f"find where the BMC and network cables of {who.node} lead, {again}", "cable", serial=who.serial)


def _one(who: NodeIdentity, other: NodeIdentity) -> bool:
    """Whether both are one machine: its boot, or its board."""
    if who.boot and who.boot == other.boot:
        return True
    return bool(who.serial and who.uuid) and (who.serial, who.uuid) == (other.serial, other.uuid)


def _image(who: NodeIdentity, clones: list[str]) -> Iterator[Trouble]:
    if clones:
        yield Trouble(f"the same /etc/machine-id as {fold(clones)}: a cloned image; DHCP may give both one "
                      "address", Owner.OPERATOR,
                      "on it: rm /etc/machine-id; systemd-machine-id-setup; reboot; then: muster bringup "
                      f"retry {who.node}")


def _name(
    who: NodeIdentity, others: Mapping[str, NodeIdentity], names: Collection[str], proof: bool,
) -> Iterator[Trouble]:
    label = _label(who.name)
    if label in _FRESH or _called(who, who.node):
        return
    of = next(
        (name for name in sorted({*names, *others}) if name != who.node and _label(name) == label), None)
    if of is not None and of in others and _called(others[of], who.node):
        yield Trouble(f"it calls itself {of}, and {of} calls itself {who.node}: are their cables swapped?",
                      Owner.DATACENTRE,
                      "compare serial numbers; put cables or addresses as planned, then: muster bringup "
                      f"retry {who.node},{of}", "cable", serial=who.serial)
        return
    duplicates = [name for name, other in others.items() if _label(other.name) == label]
    if of is None and not duplicates:
        return
    what = f"its host name is {who.name}, as of {fold(sorted({*duplicates, *([of] if of else [])}))}"
    meant = "its board is the one that is meant" if proof else "make sure that it is the one that is meant"
    yield Trouble(
        what, Owner.OPERATOR,
        f"{meant}; hostnamectl set-hostname {who.node} on it, then: muster bringup retry {who.node}",
        serial=who.serial)


def _label(name: str) -> str:
    return name.partition(".")[0].casefold()


def _called(who: NodeIdentity, name: str) -> bool:
    return _label(who.name) == _label(name)


def _text(who: NodeIdentity) -> str:
    return f"serial {who.serial}" if who.serial else f"host name {who.name}"
