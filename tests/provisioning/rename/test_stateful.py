"""Cordons, releases, renames and people who edit the file of hosts, in any order: each mark stands on the
node that the store has for it, what people wrote stays, and every mark can be ended by the command that is
shown."""

from __future__ import annotations

import shutil
import tempfile
from itertools import count
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from healthcheck.store import renaming
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.marks import CordonMark
from inventory.errors import MusterError
from provisioning.actions.base import Holder, marked
from provisioning.actions.byhand import end_mark, give_back
from provisioning.actions.cordon import cordon
from provisioning.actions.hostfile import HostFile
from provisioning.rename import run
from tests.tries import tries

NAMES = ("a", "b", "c", "d")
NAME = st.sampled_from(NAMES)


class Operators(RuleBasedStateMachine):
    """One site with one file of hosts; machines are known by what was last done under their name."""

    @initialize()
    def begin(self) -> None:
        self.home = Path(tempfile.mkdtemp())
        self.file = HostFile(self.home / "bad")
        self.clock = map(float, count(1)).__next__
        self.persons: list[str] = []
        self.context = opened(self.home / "state", make=True)
        self.store: Store = self.context.__enter__()
        self.there = set(NAMES[:3])

    def teardown(self) -> None:
        self.context.__exit__(None, None, None)
        shutil.rmtree(self.home)

    @rule(node=NAME)
    def cordons(self, node: str) -> None:
        held = self.file.held([node])[node]
        (done,) = cordon(self.store, self.file, [node], "fan", "ann", self.clock)
        assert done.held and not done.failed
        assert (done.message.startswith("cordoned in") == (held.holder is Holder.NO_ONE))

    @rule(node=NAME)
    def gives_back(self, node: str) -> None:
        (done,) = give_back(self.store, self.file, [node], "done", "ann", self.clock)
        free = self.file.held([node])[node].holder is Holder.NO_ONE
        assert (done.failed or done.held) == (not free)

    @rule(pick=st.integers(0, 5), other=st.booleans())
    def ends_a_mark(self, pick: int, other: bool) -> None:
        shown = {node: held.mark for node, held in marked(self.file, ()).items() if held.mark is not None}
        nodes = sorted(shown)
        mark = shown[nodes[pick % len(nodes)]] if nodes and not other else CordonMark("beef", 9)
        beside = {node for node, each in shown.items() if each != mark}
        end_mark(self.store, self.file, mark, (), "done", "ann", self.clock)
        left = marked(self.file, ())
        assert set(left) >= beside and all(held.mark != mark or self._edited(node)
                                           for node, held in left.items())

    def _edited(self, node: str) -> bool:
        return "Ann" in self.file.held([node])[node].reason

    @rule(old=NAME, new=NAME)
    def renames(self, old: str, new: str) -> None:
        want = run.RenameRequest(old, new, self.home / "state", [], [self.file], "moved", "ann")
        if old == new or old not in self.there or new in self.there:
            return
        before = self.file.held([old])[old]
        try:
            run.rename(want, lambda: None, self.clock)
        except MusterError:
            assert self.file.held([old])[old] == before
            return
        self.there = self.there - {old} | {new}
        after = self.file.held([old, new])
        if before.mark is not None and any(one.mark == before.mark
                                           for one in open_cordons(self.store, [new])):
            assert after[new].mark == before.mark and after[old].mark is None

    @rule(node=NAME, words=st.sampled_from(["Bob", "muster:beef#9: of another head"]))
    def a_person_writes_a_line(self, node: str, words: str) -> None:
        if any(line.startswith(f"{node} ") for line in self._lines()):
            return
        with self.file.path.open("a") as file:
            file.write(f"{node}  # {words}\n")

    @rule(node=NAME)
    def a_person_edits_a_reason(self, node: str) -> None:
        lines = [f"{line}, Ann" if line.startswith(f"{node} ") and "Ann" not in line else line
                 for line in self._lines()]
        self.file.path.write_text("".join(f"{line}\n" for line in lines))

    @rule(node=NAME)
    def a_person_removes_a_line(self, node: str) -> None:
        self.file.path.write_text("".join(f"{line}\n"
                                          for line in self._lines() if not line.startswith(f"{node} ")))

    def _lines(self) -> list[str]:
        return self.file.path.read_text().splitlines() if self.file.path.exists() else []

    @invariant()
    def no_mark_of_an_open_cordon_stands_on_another_node(self) -> None:
        ours = {one.mark: one.node for one in open_cordons(self.store)}
        for node, held in marked(self.file, ()).items():
            if held.mark is not None:
                assert ours.get(held.mark, node) == node

    @invariant()
    def nothing_is_left_under_way(self) -> None:
        assert renaming.unfinished(self.store) == [] and self.store.check() == []


TestOperators = Operators.TestCase
TestOperators.settings = settings(max_examples=tries(20), stateful_step_count=20, deadline=None,
                                  suppress_health_check=[HealthCheck.too_slow])
