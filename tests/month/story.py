"""A story on the simulated site: what happens, and the laws that hold after each step, whatever happens.

Each event is a method, so that a fixed story reads as one and hypothesis can tell others.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from healthcheck.subnet.check.findings import FabricRule
from tests.month.model import Expect, Lent, Look, Operator, Quiet, Return
from tests.month.pretend import MARK
from tests.month.world import HOUR, Done, World, slot_of

_MOST_COMMANDS = 3
_NEXT = re.compile(r"muster ((?:uncordon|cordon forget)\b(?:muster:|[^;:()\n])*)")


class Story:
    """The site, and the person who keeps books of it."""

    def __init__(self, folder: Path, main: str = "hostfile") -> None:
        self.world = World(folder, main)
        self.operator = Operator(self.world.machines)
        self.by_hand: set[str] = set()      # marks of cordons that a person typed
        self.for_lease: dict[str, Lent] = {}        # and of those that leases are made of
        self.tried: set[str] = set()
        self.copies = 0
        # behind each copy of the store the order of things then, and what a person said until then
        self.saved: list[int] = []
        self.turn(2)

    # ---- time goes on

    def sweep(self, minutes: float = 20.0) -> None:
        self.world.sweep(minutes)
        order = self.operator.tick()
        lives = self.world.lifecycles()
        for name in self.world.names():
            self.operator.look(name, self._look(name, order))
        for name, page in self.operator.pages.items():
            page.serving = lives.get(name) == "service"

    def _look(self, name: str, order: int) -> Look:
        machine, world = self.world.machines[name], self.world
        if machine.dark:
            return Look(order, world.now, frozenset({("", "")}), {}, "", world.strict)
        wrong = frozenset((rule, subject) for rule, subjects in world.wrong(name).items()
                          for subject in subjects)
        return Look(order, world.now, wrong, {**machine.parts, "chassis": machine.chassis},
                    f"{machine.chassis}-{machine.boot}", world.strict)

    def turn(self, sweeps: int = 1, minutes: float = 20.0) -> None:
        """Sweeps, each with what the timer does after it: triage acts, and what it did is looked at. The laws
        hold before the first and after each."""
        if self.operator.order:
            self.holds()
        for _ in range(sweeps):
            self.sweep(minutes)
            self.triage()
            self.holds()

    def triage(self) -> Done:
        """Triage acts once, and what it did is looked at."""
        before, words = self.world.marks(), self.world.held()
        done = self.world.triage()
        assert done.code in (0, 1, 3, 4), done.text
        order, now = self.operator.tick(), self.world.now
        after = self.world.marks()
        for key in sorted(after.keys() - before.keys()):
            node, mark = key[1], after[key]
            assert (not self.operator.leased(node, now)
                    or self.operator.restored), f"held although a burn-in has it: {node}"
            if self.operator.marks.get(mark) != node:       # else it was lost, and is set again
                why = self.operator.cause(node, now)
                assert why, f"held without a cause: {node}: {self.world.held()[key]}"
            self._given(node, mark)
            self.operator.pages[node].held = order
        for key in sorted(before.keys() - after.keys()):
            node, mark = key[1], before[key]
            if mark in self.for_lease:
                lent = self.for_lease[mark]
                assert lent.dead or lent.until < now, f"triage ended a lease that lives: {node}: {words[key]}"
                continue
            assert not self.operator.leased(node,
                                            now) or self.operator.restored, f"given back to a burn-in: {node}"
            assert mark not in self.by_hand, f"triage gave back what a person cordoned: {node}: {words[key]}"
            why = self.operator.healthy_since_hold(node, now, incident=": incident " in words[key])
            assert not why, f"given back unmeasured: {node}: {why}"
        # What ran out is ended then, and does not begin again when the clock goes back.
        for lent in self.operator.lent:
            if lent.until < now and not lent.ended:
                lent.ended = order
        self._each_node_has_what_it_is_owed()
        return done

    # ---- the laws

    def holds(self) -> None:
        """What is true after each step, and after each sweep in it."""
        shown: dict[str, str] = {}
        for (where, node), mark in self.world.marks().items():
            self._given(node, mark)
            if where == self.world.main:
                had = shown.setdefault(mark.partition("#")[2], node)
                assert had == node, f"the number of {mark} is that of {had} and of {node}"
        self._no_part_is_in_two_places()
        self._every_mark_is_listed()

    def _given(self, node: str, mark: str) -> None:
        had = self.operator.marks.setdefault(mark, node)
        assert had == node, f"{mark} was given twice: to {had} and to {node}"

    def _each_node_has_what_it_is_owed(self) -> None:
        now = self.world.now
        held = {node for _, node in self.world.held()}
        ours = {node: mark for (_, node), mark in self.world.marks().items()}
        rows: dict[str, dict[str, Any]] = {}
        named: set[str] | None = None
        for node in self.world.names():
            owed = self.operator.expectation(node, now)
            if owed.expect is Expect.MUST and node not in held:
                named = self._named() if named is None else named
                assert node in named, f"not held, and nothing says why: {node}: {owed.why}"
            if (owed.expect is Expect.MAY or node not in ours
                or ours[node] in {*self.by_hand, *self.for_lease}):
                continue
            rows = rows or self.rows()
            if owed.expect is Expect.MUST:
                row = rows[node]
                allowed = owed.owners | ({"network", "datacentre", "operator"} if row["incidents"] else set())
                assert row["owner"] in allowed, (f"whose it is: {node}: {row['owner']!r}, "
                                                 f"expected {sorted(allowed)}")
            else:
                assert self._stray(rows[node]), f"held for nothing: {node}: {owed.why}: {rows[node]['why']}"

    def _stray(self, row: dict[str, Any]) -> bool:
        """Whether the store has no cordon there: then a person is asked to end it, and no triage does."""
        return not row["cordon"]

    def _named(self) -> set[str]:
        """Nodes that the plan names with why they are not held: withheld, of an incident, not measured, or
        released by a person."""
        plan = self.world.muster("triage", "--format", "json").json()
        return {*(one["node"] for one in plan["withheld"]),
                *(node for one in plan["incidents"] for node in one["nodes"]),
                *plan["unmeasured"]}

    def rows(self) -> dict[str, dict[str, Any]]:
        """`muster nodes`, by node."""
        return {row["node"]: row for row in self.world.muster("nodes", "--format", "json").json()["nodes"]}

    def _no_part_is_in_two_places(self) -> None:
        done = self.world.muster("history", "--components", "--format", "jsonl", "--since", "365d")
        assert done.code == 0, done.text
        seats = [seat for line in done.out.splitlines() if (seat := json.loads(line))["ended"] is None]
        several = [key
                   for key, count in Counter((seat["kind"], seat["serial"]) for seat in seats).items()
                   if count > 1]
        assert not several, f"in two places: {several}"
        if self.operator.restored > self._swept():
            return
        sits = {seat["serial"]: (seat["node"], seat["slot"]) for seat in seats}
        for serial, (node, slot) in self.operator.seats().items():
            if serial in sits:
                assert sits[serial] == (node,
                                        slot), f"{serial} sits in {node} at {slot}, not in {sits[serial]}"

    def _swept(self) -> int:
        return max((page.looks[-1].order for page in self.operator.pages.values() if page.looks), default=0)

    def listed(self) -> dict[str, str]:
        """By mark the lines in which `muster cordon` names it."""
        found: dict[str, str] = {}
        lists = [self.world.muster("cordon")]
        if self.world.main == "slurm" and self.world.hosts.exists():
            lists.append(self.world.muster("cordon", "--hostfile", str(self.world.hosts)))
        for done in lists:
            assert done.code in (0, 1, 3), done.text
            for line in done.text.splitlines():
                for match in MARK.finditer(line):
                    found[match[0]] = line
        return found

    def _every_mark_is_listed(self) -> None:
        marks = self.world.marks()
        if marks:
            found = self.listed()
            for (where, node), mark in marks.items():
                assert mark in found, f"nothing lists {mark}, which keeps jobs from {node} in {where}"

    def every_hold_can_be_ended(self) -> None:
        """By the command that the list names, or else by the obvious one; tried on a copy."""
        marks = self.world.marks()
        listed = self.listed() if marks else {}
        for (where, node), mark in marks.items():
            if mark in self.tried:
                continue
            self.tried.add(mark)
            self.copies += 1
            copy = self.world.copy(self.world.folder / f"try{self.copies}")
            assert mark in listed, f"nothing lists {mark}, which keeps jobs from {node} in {where}"
            found = _NEXT.search(listed[mark])
            command = found[1] if found is not None else f"uncordon {node}"
            more = ("--hostfile", str(copy.hosts)) if where == "hostfile" and copy.main == "slurm" else ()
            said = ""
            for _ in range(_MOST_COMMANDS):
                words = shlex.split(command.replace("adopt|forget", "forget"))
                words = [{"TEXT": "tried", str(self.world.hosts): str(copy.hosts)}.get(word, word)
                         for word in words]
                if words[:2] == ["cordon", "forget"] and "--reason" not in words:
                    words += ["--reason", "tried"]
                done = copy.muster(*words, *(() if "--hostfile" in words else more))
                said += f"muster {' '.join(words)}: exit {done.code}: {done.text.strip()}\n"
                left = copy.marks().get((where, node), "")
                again = [one for one in _NEXT.findall(done.text) if one != command]
                if left != mark or not again:
                    break
                # To leave a node to whoever has it is named last, before what other back ends hold it with.
                command = next((one for one in reversed(again) if one.startswith("cordon forget")), again[-1])
            assert left != mark, f"{mark} on {node} is not ended: {said}"
            # What others hold it with besides, or another back end, it says.
            assert done.code == 0 or any(name == node for _, name in copy.held()), said

    # ---- parts and machines

    def part_fails(self, node: str, gpu: int, rule: str) -> None:
        """A GPU's fault begins: it goes with the board."""
        serial = self.world.machines[node].parts[slot_of(gpu)]
        self.world.bad.setdefault(serial, set()).add(rule)

    def part_is_well(self, node: str, gpu: int) -> None:
        self.world.bad.pop(self.world.machines[node].parts[slot_of(gpu)], None)

    def node_fails(self, node: str, rule: str) -> None:
        """A fault of the node itself."""
        self.world.machines[node].faults.add(rule)

    def node_is_well(self, node: str) -> None:
        self.world.machines[node].faults.clear()

    def cable_is_sick(self, node: str, what: FabricRule) -> None:
        """The cable of a node's adapter: it is down, which the node shows too, or has bit errors, which the
        subnet alone shows."""
        self.world.subnet = True
        self.world.sick[node] = what

    def cable_is_reseated(self, node: str) -> None:
        """A hand takes it out and puts it in again, and it is well."""
        self.world.sick.pop(node, None)

    def incidents(self) -> list[dict[str, Any]]:
        """Those that go on, as triage names them."""
        found: list[dict[str, Any]] = self.world.muster("triage", "--format", "json").json()["incidents"]
        return found

    def parts_change_places(self, one: str, gpu: int, other: str, there: int) -> None:
        """Two boards, by hand."""
        self.world.exchange(one, slot_of(gpu), other, slot_of(there))

    def part_is_exchanged(self, node: str, gpu: int, new: str) -> None:
        """A spare from the shelf takes its place, on site."""
        self.world.machines[node].parts[slot_of(gpu)] = new
        self.world.machines[node].boot += 1

    def nodes_change_places(self, one: str, other: str) -> None:
        self.world.swap(one, other)

    # ---- the vendor

    def rma_opened(self, node: str, gpu: int) -> Done:
        """A person cordons the node, unless something holds it, and sends a board away."""
        held = {name for _, name in self.world.held()}
        if node not in held:
            self.cordon(node, "RMA")
        slot = slot_of(gpu)
        more = () if self.world.held_by_muster(node) else ("--held-by", "the night shift")
        serial = self.world.machines[node].parts[slot]
        done = self.world.muster("rma", "open", node, "--slot", slot, "--reason", "worn out", "--yes", *more)
        if done.code == 0:
            self.operator.tick()
            number = self._number(done)
            self.operator.returns.append(Return(node, slot, serial, number=number))
            self.world.muster("rma", "ship", str(number))
        return done

    def old_board_shows_up(self, serial: str, node: str, gpu: int) -> None:
        """What went to the vendor, and was said to be exchanged, is put into another node."""
        for machine in self.world.machines.values():
            assert serial not in machine.parts.values()
        self.part_is_exchanged(node, gpu, serial)

    def exchanged_on_site(self, node: str, gpu: int, new: str) -> None:
        """A person swaps a board for a spare and says so, if there is a word for it."""
        slot = slot_of(gpu)
        if self.world.has("rma", "exchange"):
            if node not in {name for _, name in self.world.held()}:
                self.cordon(node, "a new board")
            more = () if self.world.held_by_muster(node) else ("--held-by", "the night shift")
            old = self.world.machines[node].parts[slot]
            words = ("rma", "exchange", node, "--slot", slot, "--serial", new, "--reason", "worn", "--yes")
            done = self.world.muster(*words, *more)
            if "no cordon of ours" in done.text:    # a mark that a restored store does not know
                done = self.world.muster(*words, "--held-by", "a mark of before")
            assert done.code == 0, done.text
            self.operator.returns.append(Return(node, slot, old, new, self.operator.tick(),
                                                number=self._number(done)))
        self.part_is_exchanged(node, gpu, new)

    def rma_closed(self, node: str) -> bool:
        """A person says that the newest return of the node is settled; False where there is none."""
        one = next((one for one in reversed(self.operator.returns) if one.node == node and not one.closed
                    and one.number),
                   None)
        if one is None or not self.world.has("rma", "close"):
            return False
        done = self.world.muster("rma", "close", str(one.number), "--reason",
                                 "settled with the vendor", "--yes")
        if "came back in order: there is nothing to close" in done.text:
            return False
        assert done.code == 0, done.text
        one.closed, one.order = True, self.operator.tick()
        return True

    def _number(self, done: Done) -> int:
        found = re.search(r"RMA (\d+)", done.out)
        assert found is not None, done.text
        return int(found[1])

    def rma_returned(self, node: str, outcome: str, seat: str = "") -> Done:
        """It is back: "same", or a new serial; `seat`: what sits there indeed, if not that."""
        one = next(one for one in reversed(self.operator.returns) if one.node == node and not one.outcome)
        words = ("--same",) if outcome == "same" else ("--serial", outcome) if outcome != "?" else ()
        done = self.world.muster("rma", "return", node, *words, "--yes")
        assert done.code == 0, done.text
        one.outcome, one.order = outcome, self.operator.tick()
        sits = seat or (one.serial if outcome == "same" else outcome)
        self.world.machines[node].parts[one.slot] = sits
        if sits == one.serial and outcome == "same":
            self.world.bad.pop(sits, None)
        self.world.machines[node].boot += 1
        return done

    # ---- people and their words

    def cordon(self, node: str, why: str, hostfile: bool = False) -> Done:
        before = self.world.marks()
        more = ("--hostfile", str(self.world.hosts)) if hostfile else ()
        done = self.world.muster("cordon", node, "--reason", why, *more)
        for key in self.world.marks().keys() - before.keys():
            self._given(node, self.world.marks()[key])
            self.by_hand.add(self.world.marks()[key])
        return done

    def uncordon(self, node: str, *more: str) -> Done:
        done = self.world.muster("uncordon", node, *more)
        self.operator.pages[node].freed = self.operator.tick()
        return done

    def mark_ends(self, node: str) -> None:
        """A person ends the very mark that keeps jobs from the node in the main back end, and no other hold.
        What another wrote beside it stays, until someone says whose it is."""
        mark = self.world.marks().get((self.world.main, node))
        if mark is None or self.operator.leased(node, self.world.now):
            return
        before = self.world.held()
        done = self.world.muster("uncordon", "--mark", mark, "--reason", "looked at")
        assert done.code in (0, 1), done.text
        if "mine now" in before[self.world.main, node]:
            assert done.code == 1 and "cordon adopt" in done.text and self.world.held() == before, done.text
            return
        assert mark not in self.world.marks().values(), done.text
        assert {key: words
                for key, words in before.items()
                if key[1] != node}.items() <= self.world.held().items(), done.text
        self.operator.pages[node].freed = self.operator.tick()

    def lease(self, node: str, minutes: float, *, killed: bool = False) -> None:
        """A burn-in has the node for itself; `killed`: and is killed at once."""
        before = self.world.marks()
        name = self.world.lease(node, minutes, killed=killed)
        if not name:
            return
        lent = Lent(node, name, self.world.now, self.world.now + minutes * 60, killed, self.operator.tick())
        self.operator.lent.append(lent)
        for key in self.world.marks().keys() - before.keys():
            self._given(node, self.world.marks()[key])
            self.for_lease[self.world.marks()[key]] = lent

    def lease_ends(self, node: str) -> None:
        """The burn-in gives it back: what was held for it only is free, and any other hold stays."""
        lent = next((one for one in reversed(self.operator.lent) if one.node == node and not one.ended), None)
        if lent is None:
            return
        before = self.world.marks()
        trouble = self.world.lease_ends(lent.name)
        lent.ended = self.operator.tick()
        gone = {*before.values()} - {*self.world.marks().values()}
        assert all(self.for_lease.get(mark) is lent
                   for mark in gone), f"{lent.name} took other holds with it: {gone}"
        assert not trouble or not self._only_its_own(lent), trouble

    def _only_its_own(self, lent: Lent) -> bool:
        return any(self.for_lease.get(mark) is lent for mark in self.world.marks().values())

    def silence(self, node: str, rule: str, hours: float) -> None:
        """A person does not want to hear of it."""
        done = self.world.muster("silence", node, rule, "--reason", "known", "--for", f"{hours:g}h")
        assert done.code == 0, done.text
        self.operator.silences.append(Quiet(frozenset({node}), rule, self.world.now + hours * HOUR,
                                            self.operator.tick()))

    def unsilence(self, node: str) -> None:
        """All of the node's."""
        self.world.muster("unsilence", node)
        for one in self.operator.silences:
            one.ended = one.ended or node in one.nodes

    def lifecycle(self, node: str, state: str) -> Done:
        """A person takes it out of service, or back."""
        done = self.world.muster("inventory", "lifecycle", node, state, "--yes")
        assert done.code == 0, done.text
        return done

    def person_drains(self, node: str, words: str) -> None:
        """Beside us, in the back end."""
        self.world.person_holds(node, words)
        self.operator.tick()

    def person_frees(self, node: str) -> None:
        """Whoever held it."""
        self.world.person_frees(node)
        self.operator.pages[node].freed = self.operator.tick()

    def person_edits(self, node: str) -> None:
        """Words beside our mark make it theirs."""
        words = self.world.held().get((self.world.main, node))
        if words is not None:
            self.world.person_holds(node, f"{words} - mine now, alice")
            if (mark := self.world.marks().get((self.world.main, node))) is not None:
                self.by_hand.add(mark)

    def repaired(self, node: str) -> Done:
        self.world.now += 60      # who repaired it came after the look
        done = self.world.muster("repaired", node, "--reason", "reseated")
        if "--component is missing" in done.text:
            done = self.world.muster("repaired", node, "--component", "all", "--reason", "reseated")
        self.operator.pages[node].repaired = self.operator.tick()
        return done

    # ---- names, copies, clocks, rules, places

    def renamed(self, old: str, new: str) -> bool:
        """First where Slurm has it, then by the command, where there is one, or else by hand; False where a
        lease forbids it."""
        if self.world.has("inventory", "rename"):
            self.world.slurm.rename(old, new)
            # A cordon in another back end than the inventory's is taken along where that is named.
            beside = self.world.main == "slurm" and ("hostfile", old) in self.world.marks()
            more = ("--hostfile", str(self.world.hosts)) if beside else ()
            done = self.world.muster("inventory", "rename", old, new, "--yes", *more)
            if done.code != 0 and self.operator.leased(old, self.world.now):
                assert "is leased" in done.text, done.text
                self.world.slurm.rename(new, old)
                return False
            # What others hold by the old name they hold on, and so does a mark that a restored store forgot.
            left = any(words in done.text for words in ("others hold", "is no cordon of"))
            assert done.code == (1 if left else 0), done.text
            self.world.renamed(old, new)
        else:
            self.world.rename_by_hand(old, new)
        self.operator.renamed(old, new)
        for (_, node), mark in self.world.marks().items():
            if node == old:         # what no store knows as a cordon stays where it is written
                self.operator.marks[mark] = old
        self.operator.tick()
        return True

    def backup(self) -> None:
        self.world.backup()
        self.saved.append(self.operator.tick())

    def restore(self, which: int = -1) -> Done:
        """An older copy takes the store's place; what people said since has to be said again."""
        done = self.world.muster("store", "restore", str(self.world.backups[which]), "--replace")
        assert done.code == 0, done.text
        then = self.saved[which]
        operator = self.operator
        operator.restored = operator.tick()
        operator.silences = [one for one in operator.silences if one.order < then]
        # What sweeps saw since then is new to it, another machine under a name, too.
        operator.unseen(then)
        for one in operator.returns:
            one.forgotten = one.forgotten or not one.closed
            one.closed = one.closed or one.order > then or not one.outcome
        self.tried.clear()
        return done

    def moves(self) -> None:
        """The store goes to another head: the old one does nothing any more, and the new one knows all."""
        target = self.world.folder / f"moved{self.operator.tick()}.db"
        before = self.world.held(), self.world.rows_of("cordon"), self.world.rows_of("silence")
        done = self.world.muster("store", "move", str(target))
        if done.code != 0:
            assert any(self.operator.leased(node, self.world.now) or (one.node == node and not one.ended)
                       for node in self.world.machines for one in self.operator.lent), done.text
            return
        assert self.world.triage().code == 2
        self.world.state = self.world.folder / target.stem
        done = self.world.muster("store", "restore", str(target))
        assert done.code == 0, done.text
        assert (self.world.held(), self.world.rows_of("cordon"), self.world.rows_of("silence")) == before

    def clock_jumps(self, hours: float) -> None:
        """The head's, forwards or backwards. What was lent in what is now the future lasts as long as it was
        to, from now."""
        self.world.now += hours * HOUR
        for lent in self.operator.lent:
            early = lent.began - self.world.now
            if early > 0 and not lent.ended:
                lent.began, lent.until = lent.began - early, lent.until - early
        self.operator.jumped = self.operator.tick()

    def rules_change(self, *, strict: bool) -> None:
        """An overlay that is too strict, or back."""
        self.world.strict = strict
        self.operator.rules_changed = self.operator.tick()

    def place_fails(self, kind: str, name: str, rule: str) -> None:
        """Of every node in one rack, leaf or PDU; "" is that it goes dark."""
        for node, at in self.world.places.items():
            if at[kind] == name and not rule:
                self.world.machines[node].dark = True
            elif at[kind] == name:
                self.node_fails(node, rule)

    def place_is_well(self, kind: str, name: str, rule: str) -> None:
        """It is back; what lost its power has booted."""
        for node, at in self.world.places.items():
            if at[kind] == name:
                machine = self.world.machines[node]
                machine.boot += machine.dark
                machine.dark = machine.dark and bool(rule)
                machine.faults.discard(rule)

