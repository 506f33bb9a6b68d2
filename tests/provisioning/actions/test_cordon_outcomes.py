"""What is said, and written down, of each outcome of a cordon or release, at chosen moments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import count

import pytest

from healthcheck.store.cordons import mean, open_cordons
from healthcheck.store.file import Store
from healthcheck.store.ledger import lines
from healthcheck.store.marks import mark_of
from provisioning.actions.base import ActionError, Holder, NodeHold
from provisioning.actions.cordon import (
    CordonRequest,
    CordonResult,
    cordon,
    cordon_each,
    uncordon,
    uncordon_each,
)
from tests.testbed.death import Death

FREE = NodeHold(Holder.NO_ONE)
FAN = NodeHold(Holder.OTHERS, "fan, Tuesday")
CLOCK = map(float, count(1)).__next__


class Back:
    """A back end of what each node shows. `moments` are what happens at its calls, by name and how many there
    were before; `calls` are those that were made."""

    name = "back"

    def __init__(self, *nodes: str) -> None:
        self.shows = dict.fromkeys(nodes, FREE)
        self.moments: dict[tuple[str, int], Callable[[], object]] = {}
        self.calls: list[tuple[str, ...]] = []

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        self.call("held", *nodes)
        return {node: self.shows.get(node, NodeHold(Holder.ABSENT)) for node in nodes}

    def isolate(self, node: str, reason: str) -> None:
        self.call("isolate", node, reason)
        self.shows[node] = ours(reason)

    def release(self, node: str, shown: str = "") -> None:
        self.call("release", node, shown)
        self.shows[node] = FREE

    def call(self, *words: str) -> None:
        before = sum(each[0] == words[0] for each in self.calls)
        self.calls.append(words)
        if (moment := self.moments.get((words[0], before))) is not None:
            moment()

    def looks(self) -> int:
        return sum(each[0] == "held" for each in self.calls)


class Reading(Back):
    """One that is asked for each node just before its change."""

    def now(self, node: str) -> NodeHold:
        self.call("now", node)
        return self.shows[node]


class Tracking(Back):
    """One that finds who lost a node to our release."""

    lost = ""

    def taken_from(self, before: NodeHold, after: NodeHold) -> str:
        return self.lost


def ours(reason: str) -> NodeHold:
    return NodeHold(Holder.US, reason, mark_of(reason), user="root", since=7.0)


def fails(why: str = "no answer") -> Callable[[], object]:
    def moment() -> object:
        raise ActionError(why)
    return moment


def shows(back: Back, node: str, held: NodeHold) -> Callable[[], object]:
    return lambda: back.shows.update({node: held})


def refuses(back: Back, node: str, held: NodeHold) -> Callable[[], object]:
    """Someone holds the node by now, which the back end itself sees."""
    def moment() -> object:
        back.shows[node] = held
        raise ActionError("someone was faster")
    return moment


def dies() -> object:
    raise Death


def take(store: Store, back: Back, *nodes: str, why: str = "fan", dry: bool = False) -> list[CordonResult]:
    return cordon(store, back, nodes, why, "me", CLOCK, dry=dry)


def give(
    store: Store, back: Back, *nodes: str, dry: bool = False, containing: str = "",
) -> list[CordonResult]:
    return uncordon(store, back, nodes or None, "done", "me", CLOCK, dry=dry, containing=containing)


def states(store: Store) -> list[str]:
    return [row[0] for row in store.rows("SELECT state FROM cordon ORDER BY id")]


def told(store: Store) -> list[tuple[str, str | None]]:
    return [(line.action, line.outcome) for line in lines(store)]


def cut_short(store: Store, back: Back, deed: str, act: Callable[[], object]) -> None:
    """A run is killed as it asks for this."""
    back.calls.clear()
    back.moments[deed, 0] = dies
    with pytest.raises(Death):
        act()
    back.moments.clear()
    back.calls.clear()


# ---- cordons

def test_a_free_node_is_cordoned_and_looked_at_and_its_cordon_keeps_what_it_was_set_on_by_whom_and_when(
    store: Store,
) -> None:
    back = Back("a", "b")
    back.shows["a"] = NodeHold(Holder.NO_ONE, identity="uid 1")
    assert take(store, back, "a") == [CordonResult("a", "cordoned in back as muster#1", held=True)]
    assert back.calls == [("held", "a"), ("isolate", "a", "muster#1: fan"), ("held", "a")]
    (one,) = open_cordons(store)
    assert (
        one.state.value, one.identity, one.user, one.stamp, one.asked) == ("held", "uid 1", "root", 7.0, 1)
    assert told(store) == [("cordon", "cordoned")]


def test_where_nothing_is_to_be_done_nothing_is_asked_for_again(store: Store) -> None:
    back = Back("a")
    assert take(store, back) == [] and back.calls == []
    back.shows["a"] = FAN
    assert take(store, back, "a") == [
        CordonResult("a", "left alone, others hold it: fan, Tuesday", held=True)] and back.looks() == 1
    assert (states(store), told(store)) == ([], [])


def test_a_dry_run_says_what_would_be_done_and_settles_nothing(store: Store) -> None:
    back = Back("a", "b")
    cut_short(store, back, "isolate", lambda: take(store, back, "a"))
    assert take(
        store, back, "b", dry=True) == [CordonResult("b", "would be cordoned in back: fan", held=False)]
    assert give(store, back, dry=True) == [CordonResult("a", "would be left alone: nobody", held=False)]
    assert back.calls == [
        ("held", "b"), ("held", "a")] and states(store) == ["meant"] and told(store) == [("cordon", None)]


@pytest.mark.parametrize(
    ("shown", "said", "failed"),
    [(NodeHold(Holder.ABSENT), "is not known there", True),
     (NodeHold(Holder.ABSENT, "gone"), "is not known there (gone)", True),
     (NodeHold(Holder.OTHERS, "x"), "left alone, others hold it: x", False),
     (ours("muster#9: x"), "left alone, a mark that this store does not know: muster#9: x", False),
     (ours("muster#1: fan"), "cordoned already as muster#1: fan", False),
     (ours("muster#1: fan - KEEP DOWN"), "left alone, beside muster#1 a person wrote: KEEP DOWN", False)])
def test_a_node_that_is_held_already_or_not_there_is_reported_and_left(
    store: Store, shown: NodeHold, said: str, failed: bool,
) -> None:
    back = Back("a")
    take(store, back, "a")
    back.shows["a"] = shown
    assert take(store, back, "a", why="again") == [CordonResult("a", said, held=not failed, failed=failed)]
    assert back.shows["a"] == shown and states(store) == ["held"]


def test_a_cordon_that_somebody_gave_back_is_void_and_the_node_is_cordoned_anew(store: Store) -> None:
    back = Back("a")
    take(store, back, "a")
    back.shows["a"] = FREE
    assert take(store, back, "a") == [
        CordonResult("a", "cordoned in back as muster#2", held=True)] and states(store) == ["void", "held"]


def test_a_node_that_another_muster_is_cordoning_is_left_to_it_and_costs_no_other(store: Store) -> None:
    back = Back("a", "b")
    back.moments["held", 0] = lambda: mean(store, "a", "back", "theirs", "they", 0.0)
    assert take(store, back, "a", "b") == [
        CordonResult("a", "another muster is cordoning it", held=False, failed=True),
        CordonResult("b", "cordoned in back as muster#2", held=True)]
    assert back.shows["a"] == FREE and states(store) == ["meant", "held"]


def test_what_a_person_holds_just_before_the_change_is_left_and_a_kill_then_is_known_to_have_done_nothing(
    store: Store,
) -> None:
    back = Reading("a")
    back.moments["now", 0] = shows(back, "a", FAN)
    assert take(
        store, back, "a") == [CordonResult("a", "left alone, others hold it now: fan, Tuesday", held=True)]
    assert back.shows["a"] == FAN and ("isolate", "a", "muster#1: fan") not in back.calls
    assert told(store) == [
        ("cordon", "not done: others hold it now: fan, Tuesday")] and states(store) == ["void"]
    back.shows["a"] = FREE
    back.moments.clear()
    cut_short(store, back, "now", lambda: take(store, back, "a"))
    take(store, back)
    assert told(store)[-1] == (
        "cordon", "not done: it was cut short before back was asked") and states(store) == ["void", "void"]
    cut_short(store, back, "isolate", lambda: take(store, back, "a"))
    take(store, back)
    assert told(store)[-1] == ("cordon", "not done; found so later") and states(store)[2:] == ["void"]


@pytest.mark.parametrize(
    ("moment", "held", "said", "written", "state"),
    [(refuses, FREE, "NOT cordoned: someone was faster", "not done: someone was faster", "void"),
     (refuses, FAN, "left alone, others hold it now: fan, Tuesday",
      "not done: others hold it now: fan, Tuesday", "void"),
     (refuses, ours("muster#1: fan"), "cordoned in back as muster#1", "cordoned", "held"),
     (shows, FREE, "NOT cordoned: back shows nobody: ", "not done: back shows nobody: ", "void"),
     (shows, FAN, "left alone, others hold it now: fan, Tuesday",
      "cordoned, and others hold it now: fan, Tuesday", "void"),
     (shows, ours("muster#1: fan; KEEP DOWN"),
      "cordoned in back as muster#1, and a person wrote: KEEP DOWN: it is theirs",
      "cordoned in back as muster#1, and a person wrote: KEEP DOWN", "held")])
def test_what_the_node_shows_afterwards_is_believed_more_than_what_the_back_end_said(
    store: Store, moment: Callable[[Back, str, NodeHold], Callable[[], object]], held: NodeHold, said: str,
    written: str, state: str,
) -> None:
    back = Back("a")
    back.moments["isolate" if moment is refuses else "held", int(moment is shows)] = moment(back, "a", held)
    failed = said.startswith("NOT")
    assert take(store, back, "a") == [CordonResult("a", said, held=not failed, failed=failed)]
    assert (told(store), states(store)) == ([("cordon", written)], [state])
    assert [one.user for one in open_cordons(store)] == [""] * (state == "held") or written == "cordoned"


@pytest.mark.parametrize(("refused", "why"), [(False, "no answer"), (True, "it is not allowed")])
def test_a_cordon_that_no_one_can_look_at_afterwards_stays_open_until_the_next_run_looks(
    store: Store, refused: bool, why: str,
) -> None:
    back = Back("a")
    back.moments["held", 1] = fails()
    if refused:
        back.moments["isolate", 0] = fails("it is not allowed")
    assert take(store, back, "a") == [
        CordonResult("a", f"it is not known whether it is cordoned: {why}", held=False, failed=True)]
    assert (told(store), states(store)) == ([("cordon", None)], ["meant"])
    take(store, back)
    assert (told(store), states(store)) == (
        [("cordon", "not done; found so later" if refused else "cordoned; found so later")],
        ["void" if refused else "held"])


# ---- what was cut short

@pytest.mark.parametrize(("shown", "user"), [("muster#1: fan", "root"), ("muster#1: KEEP DOWN", "")])
def test_a_cordon_that_was_cut_short_and_is_there_is_held_as_ours_only_where_it_is_as_we_set_it(
    store: Store, shown: str, user: str,
) -> None:
    back = Back("a", "b")
    take(store, back, "b")
    cut_short(store, back, "isolate", lambda: take(store, back, "a"))
    back.shows["a"] = ours(shown.replace("#1", "#2"))
    take(store, back)
    assert back.calls == [("held", "a")]        # and not the other, of which all is known
    one = open_cordons(store, ["a"])[0]
    assert (one.state.value, one.user, one.stamp) == (
        "held", user, 7.0) and told(store)[-1] == ("cordon", "cordoned; found so later")
    take(store, back)
    assert len(back.calls) == 1


@pytest.mark.parametrize(("shown", "state", "outcome"),
                         [(FREE, "released", "released; found so later"),
                          (ours("muster#1: fan"), "held", "not done; found so later"),
                          (FAN, "released", "released; found so later")])
def test_a_release_that_was_cut_short_is_what_the_node_shows(
    store: Store, shown: NodeHold, state: str, outcome: str,
) -> None:
    back = Back("a")
    take(store, back, "a")
    cut_short(store, back, "release", lambda: give(store, back, "a"))
    back.shows["a"] = shown
    take(store, back)
    assert (states(store), told(store)[1:]) == (
        [state], [("uncordon", outcome)]) and back.calls == [("held", "a")]


def test_a_release_that_was_cut_short_in_another_back_end_is_not_this_ones(store: Store) -> None:
    back, other = Back("a"), Back("a")
    other.name = "other"
    take(store, back, "a")
    take(store, other, "a")
    cut_short(store, other, "release", lambda: give(store, other, "a"))
    take(store, back)
    assert back.calls == [
        ("held", "a"), ("isolate", "a", "muster#1: fan"), ("held", "a")] and states(store) == ["held", "held"]


# ---- releases

def test_where_we_have_no_cordon_nothing_is_asked(store: Store) -> None:
    back = Back("a", "b")
    assert give(store, back, "a") == [CordonResult("a", "there is no cordon of ours", held=False)] and give(
        store, back) == [] and back.calls == []
    take(store, back, "b")
    assert give(store, back, "a", "b") == [CordonResult("a", "there is no cordon of ours", held=False),
                                           CordonResult("b", "muster#1 is released", held=False)]


def test_nodes_are_released_in_the_order_given_each_for_its_reason_with_the_words_that_it_shows(
    store: Store,
) -> None:
    back = Back("a", "b", "c")
    take(store, back, "a", "b", "c")
    back.calls.clear()
    done = uncordon_each(store, back, {"c": "mended", "a": "proven", "x": "-"}, "me", CLOCK)
    assert [one.node for one in done] == ["x", "a", "c"] and back.shows["b"] == ours("muster#2: fan")
    assert (back.calls == [("held", "a", "c"), ("release", "c", "muster#3: fan"),
                           ("release", "a", "muster#1: fan"), ("held", "c", "a")])
    assert [(line.node, line.why, line.outcome) for line in lines(store)[3:]] == [
        ("c", "mended", "released"), ("a", "proven", "released")]
    assert states(store) == ["released", "held", "released"]
    assert give(store, back) == [
        CordonResult("b", "muster#2 is released", held=False)] and lines(store)[-1].why == "done"


def test_beside_anothers_hold_no_words_are_compared(store: Store) -> None:
    back = Back("a")
    take(store, back, "a")
    back.shows["a"] = NodeHold(Holder.OTHERS, "theirs", open_cordons(store)[0].mark)
    back.calls.clear()
    give(store, back, "a")
    assert back.calls[1] == ("release", "a", "")


@pytest.mark.parametrize(
    ("shown", "would", "held", "said", "failed", "state"),
    [(FREE, "would be left alone: nobody", False, "someone had given it back", False, "void"),
     (FAN, "would be left alone: fan, Tuesday", True, "left alone, others hold it now: fan, Tuesday", False,
      "void"),
     (NodeHold(Holder.ABSENT), "would be left alone: absent", False, "it is not known there any more", False,
      "anew"),
     (NodeHold(Holder.NO_ONE, identity="uid 2"), "would be left alone: nobody", False,
      "it registered or was installed anew", False, "anew"),
     (NodeHold(Holder.OTHERS, "x", identity="uid 2"), "would be left alone: x", True,
      "it registered or was installed anew", False, "anew"),
     (ours("muster#1: KEEP DOWN"), "would be left alone: a person wrote: KEEP DOWN", True,
      "NOT released, beside muster#1 a person wrote: KEEP DOWN; if they agree: muster cordon adopt a "
      "--reason TEXT, then muster uncordon a; to leave it to them: muster cordon forget a --reason TEXT",
      True, "held")])
def test_what_is_not_ours_any_more_is_left_and_written_down(
    store: Store, shown: NodeHold, would: str, held: bool, said: str, failed: bool, state: str,
) -> None:
    back = Back("a")
    back.shows["a"] = NodeHold(Holder.NO_ONE, identity="uid 1")
    take(store, back, "a")
    back.shows["a"] = shown
    back.calls.clear()
    assert give(
        store, back, "a", dry=True) == [CordonResult("a", would, held=False)] and states(store) == ["held"]
    assert uncordon_each(
        store, back, {"a": "mended"}, "me", CLOCK) == [CordonResult("a", said, held=held, failed=failed)]
    assert back.shows["a"] == shown and states(store) == [state] and back.calls == [("held", "a")] * 2
    assert [(line.why, line.outcome) for line in lines(store)[1:]] == [("mended", said)] * (state != "held")


def test_a_dry_run_says_that_ours_would_be_released(store: Store) -> None:
    back = Back("a")
    take(store, back, "a")
    assert give(store, back, "a", dry=True) == [
        CordonResult("a", "muster#1 would be released", held=True)] and states(store) == ["held"]


def test_a_node_that_is_given_back_just_before_its_release_is_not_released(store: Store) -> None:
    back = Reading("a")
    take(store, back, "a")
    back.moments["now", 1] = shows(back, "a", FAN)
    assert give(
        store, back, "a") == [CordonResult("a", "left alone, others hold it now: fan, Tuesday", held=True)]
    assert "release" not in {call[0] for call in back.calls} and states(store) == ["void"]
    assert told(store)[-1] == ("uncordon", "left alone, others hold it now: fan, Tuesday")


# down, and it shows the reason of the drain that it had
KEPT = NodeHold(Holder.OTHERS, "muster#1: fan [down]")


@pytest.mark.parametrize(
    ("moment", "shown", "said", "held", "failed", "written", "state"),
    [(refuses, ours("muster#1: fan"), "NOT released: someone was faster", True, True,
      "not done: someone was faster", "held"),
     (shows, ours("muster#1: fan"), "NOT released: it is still held", True, True,
      "not done: it is still held", "held"),
     (refuses, FAN, "left alone, others hold it now: fan, Tuesday", True, False,
      "left alone, others hold it now: fan, Tuesday", "void"),
     (shows, FAN, "muster#1 is released; others hold it now: fan, Tuesday", True, False, "released",
      "released"), (refuses, FREE, "muster#1 is released", False, False, "released", "released"),
     (shows, NodeHold(Holder.ABSENT), "muster#1 is released", True, False, "released", "released"),
     (shows, KEPT, "muster#1 is released", True, False, "released", "released"),
     (shows, ours("muster#1: KEEP DOWN"), "NOT released, beside muster#1 a person wrote: KEEP DOWN", True,
      True, "not done: beside muster#1 a person wrote: KEEP DOWN", "held")])
def test_after_a_release_what_the_node_shows_is_believed(
    store: Store, moment: Callable[[Back, str, NodeHold], Callable[[], object]], shown: NodeHold, said: str,
    held: bool, failed: bool, written: str, state: str,
) -> None:
    back = Back("a")
    take(store, back, "a")
    when = ("release", 0) if moment is refuses else ("held", 3)
    back.moments[when] = moment(back, "a", shown)
    (done,) = give(store, back, "a")
    assert (done.message.partition("; if they")[0], done.held, done.failed) == (said, held, failed)
    assert (told(store)[1:], states(store)) == ([("uncordon", written)], [state])


@pytest.mark.parametrize(("refused", "why"), [(False, "no answer"), (True, "it is not allowed")])
def test_a_release_that_no_one_can_look_at_afterwards_stays_open_and_what_was_lost_is_reported_all_the_same(
    store: Store, refused: bool, why: str,
) -> None:
    back = Back("a", "b")
    take(store, back, "a", "b")
    back.shows["b"] = FREE
    back.moments["held", 3] = fails()
    if refused:
        back.moments["release", 0] = fails("it is not allowed")
    assert give(store, back) == [
        CordonResult("a", f"it is not known whether it is released: {why}", held=True, failed=True),
        CordonResult("b", "someone had given it back", held=False)]
    assert (states(store), told(store)[2:]) == (
        ["held", "void"], [("uncordon", None), ("uncordon", "someone had given it back")])
    take(store, back)
    assert states(store)[0] == ("held" if refused else "released")


def test_who_took_a_node_over_just_before_our_release_has_it_back(store: Store) -> None:
    back = Tracking("a", "b")
    take(store, back, "a")
    back.lost = "theirs since Monday"
    assert give(store, back, "a") == [
        CordonResult("a", "left alone, others hold it now: theirs since Monday", held=True)]
    assert (("isolate", "a", "theirs since Monday") in back.calls
            and back.shows["a"].reason == "theirs since Monday")
    assert (told(store)[1:], states(store)) == (
        [("uncordon", "left alone, others hold it now: theirs since Monday")], ["void"])
    back.lost = ""
    take(store, back, "b")
    back.calls.clear()
    assert give(
        store, back, "b") == [CordonResult("b", "muster#2 is released", held=False)] and back.looks() == 2


def test_where_it_cannot_be_given_back_to_them_what_the_node_shows_is_reported(store: Store) -> None:
    back = Tracking("a")
    take(store, back, "a")
    back.lost = "theirs since Monday"
    back.moments["isolate", 1] = fails()
    assert give(store, back, "a") == [
        CordonResult("a", "muster#1 is released", held=False)] and states(store) == ["released"]


@pytest.mark.parametrize(
    ("shown", "containing", "released"),
    [("muster#1: lease 4: a sweep", "lease 4", True), ("muster#1: lease 4: a sweep", "lease 5", False),
     ("muster#1:", "lease 5", True), ("muster#1: lease 4: a sweep", "", True)])
def test_an_older_mark_is_ours_where_its_words_are_or_where_they_were_lost(
    store: Store, shown: str, containing: str, released: bool,
) -> None:
    back = Back("a")
    take(store, back, "a", why="lease 4: a sweep")
    back.shows["a"] = ours(shown)
    (done,) = give(store, back, "a", containing=containing)
    assert done.message == (
        "muster#1 is released" if released else f"left alone, others hold it now: {shown}")
    assert states(store) == ["released" if released else "void"] and (back.shows["a"] == FREE) is released


def test_each_cordon_of_many_is_for_its_own_reason(store: Store) -> None:
    back = Back("a", "b")
    done = cordon_each(
        store, back, [CordonRequest("b", "fan"), CordonRequest("a", "link"), CordonRequest("b", "port")],
        "me", CLOCK)
    assert [one.node for one in done] == [
        "b", "a", "b"] and {one.node: one.why for one in open_cordons(store)} == {"a": "link", "b": "port"}
