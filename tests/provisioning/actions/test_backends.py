"""Every back end, by the same tests: cordons are owned, whoever works beside us or kills us."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from healthcheck.store.cordons import CordonState, open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.ledger import lines
from healthcheck.store.marks import CordonMark
from healthcheck.store.strays import strays
from provisioning.actions.base import Backend, Holder, marked
from provisioning.actions.byhand import end_mark
from provisioning.actions.cordon import CordonResult, cordon, uncordon
from provisioning.actions.strays import adopt, forget
from tests.testbed.backends import KubernetesSite, Memory, Site, SlurmSite
from tests.testbed.death import Death
from tests.testbed.slurm import fixture_of

NODES = [f"gpu00{n}" for n in range(1, 9)]


bed = fixture_of(NODES)


@pytest.fixture(params=["memory", "hostfile", "golden", "command", "kubernetes", "slurm"])
def site(request: pytest.FixtureRequest, site_of: Callable[[str, Collection[str]], Site]) -> Site:
    return site_of(request.param, NODES)


# What cordons are by our own books: in the fast tier by the back ends that take no other process.
BOOKS = pytest.mark.parametrize("site", ["memory", "hostfile", "golden", *(
    pytest.param(one, marks=pytest.mark.slow) for one in ("command", "kubernetes", "slurm"))], indirect=True)
CLOCK = map(float, count(1)).__next__


def take(store: Store, site: Site, *nodes: str, why: str = "fan") -> list[CordonResult]:
    return cordon(store, site.backend, nodes, why, "me", CLOCK)


def give(store: Store, site: Site, *nodes: str) -> list[CordonResult]:
    return uncordon(store, site.backend, nodes, "done", "me", CLOCK)


def holder(site: Site, node: str) -> Holder:
    return site.backend.held([node])[node].holder


def test_a_cordon_is_ours_by_its_number_and_leaves_nothing_behind(store: Store, site: Site) -> None:
    before = [site.shown(node) for node in NODES]
    assert [done.message for done in take(store, site, "gpu001", "gpu003")] == [
        f"cordoned in {site.backend.name} as muster#{n}" for n in (1, 2)]
    held = site.backend.held(NODES)
    assert ({node: (one.holder, one.number) for node, one in held.items() if one.holder is not Holder.NO_ONE}
            == {"gpu001": (Holder.US, 1), "gpu003": (Holder.US, 2)})
    assert held["gpu003"].reason == "muster#2: fan"
    assert take(store, site, "gpu001")[0].message == "cordoned already as muster#1: fan"
    assert [done.message for done in give(store, site, "gpu003", "gpu001")] == [
        "muster#1 is released", "muster#2 is released"]
    assert {one.holder for one in site.backend.held(NODES).values()} == {Holder.NO_ONE}
    if not isinstance(site, SlurmSite):     # it keeps the time of the last change
        assert [site.shown(node) for node in NODES] == before


def test_what_stands_there_in_our_form_is_found_without_its_node_being_named(
    store: Store, site: Site,
) -> None:
    take(store, site, "gpu001")
    site.hold("gpu004", "muster:beef#7: of a head that is gone")
    site.hold("gpu005", "a person's own")
    shown = marked(site.backend, NODES if site.backend.name in ("memory", "command") else ())
    assert {node: str(held.mark) for node, held in shown.items()} == {
        "gpu001": "muster#1", "gpu004": "muster:beef#7"}


@BOOKS
def test_one_mark_is_ended_and_no_other(store: Store, site: Site) -> None:
    take(store, site, "gpu001", "gpu002")
    site.hold("gpu004", "muster:beef#7: of a head that is gone")
    site.hold("gpu005", "muster:beef#8: of a head that is gone")

    def end(mark: CordonMark, *, dry: bool = False) -> list[CordonResult]:
        return end_mark(store, site.backend, mark, NODES, "gone", "me", CLOCK, dry=dry)

    assert [one.node for one in end(CordonMark("beef", 7), dry=True)] == ["gpu004"]
    assert holder(site, "gpu004") is Holder.US
    assert [(one.node, one.message, one.held, one.failed) for one in end(CordonMark("beef", 7))] == [
        ("gpu004", "muster:beef#7 is removed; it goes back to jobs", False, False)]
    assert [(one.node, one.message) for one in end(CordonMark("", 2))] == [("gpu002", "muster#2 is released")]
    assert [holder(site, f"gpu00{n}") for n in (1, 2, 4, 5)] == [
        Holder.US, Holder.NO_ONE, Holder.NO_ONE, Holder.US]
    again = end(CordonMark("", 2))[0]
    assert (again.held, again.failed) == (False, False) and "muster#2 is over since" in again.message
    assert end(CordonMark("beef", 7))[0].failed and [one.node for one in open_cordons(store)] == ["gpu001"]


def test_a_persons_hold_is_left_as_it_is_in_whatever_words(store: Store, site: Site) -> None:
    words = ["fan, Tuesday", "muster", "muster: looks like ours", "muster#0: x", "a muster#12: x",
             "muster#7: of another store"]
    held = dict(zip(NODES, words, strict=False))
    for node in held:
        site.hold(node, held[node])
    before = {node: site.shown(node) for node in held}
    for done in take(store, site, *held):
        assert done.message.startswith("left alone, ") and (done.held,
                                                            done.failed) == (True, False), held[done.node]
    assert [done.message for done in give(store, site, *held)] == ["there is no cordon of ours"] * len(words)
    assert {node: site.shown(node) for node in held} == before and open_cordons(store) == []
    assert Holder.NO_ONE not in {one.holder for one in site.backend.held(list(held)).values()}


@BOOKS
def test_a_node_that_a_person_took_over_stays_theirs(store: Store, site: Site) -> None:
    theirs = {"gpu003": "mine now", "gpu004": "muster#99: of another store"}
    take(store, site, *theirs)
    for node in theirs:
        site.hold(node, theirs[node])
    before = {node: site.shown(node) for node in theirs}
    assert all(done.message.startswith("left alone, ") for done in take(store, site, *theirs))
    assert [done.held for done in give(store, site, *theirs)] == [True, True]
    assert {node: site.shown(node) for node in theirs} == before and open_cordons(store) == []
    assert Holder.NO_ONE not in {holder(site, node) for node in theirs}


@BOOKS
def test_a_node_that_a_person_gave_back_is_no_longer_ours_and_can_be_taken_anew(
    store: Store, site: Site,
) -> None:
    take(store, site, "gpu003")
    site.free("gpu003")
    assert take(
        store, site, "gpu003", why="again")[0].message == f"cordoned in {site.backend.name} as muster#2"
    assert site.backend.held(["gpu003"])["gpu003"].number == 2
    site.free("gpu003")
    assert (give(store, site, "gpu003")[0].message == "someone had given it back"
            and holder(site, "gpu003") is Holder.NO_ONE)


def test_a_node_that_is_not_known_costs_no_other(store: Store, site: Site) -> None:
    assert holder(site, "gpu099") is site.unknown
    known, unknown = take(store, site, "gpu006", "gpu099")
    assert known.held and not known.failed and unknown.failed == (site.unknown is Holder.ABSENT)
    assert holder(site, "gpu006") is Holder.US


REASONS = ["long " * 200, "a\x1b[31m\nState=RESUME\r\x00\u202e", "# x  # gpu001 of gpu001",
           "'; id \"$(id)\" `id`", "ü" * 190, "gpu001", "  ", "muster#5: no"]


def test_whatever_the_reason_the_mark_stays_and_the_node_comes_back(store: Store, site: Site) -> None:
    free = {node: one.holder for node, one in site.backend.held(NODES).items()}
    taken: list[str] = []
    for number, (node, why) in enumerate(zip(NODES, REASONS, strict=True), 1):
        (done,) = take(store, site, node, why=why)
        assert done.message == f"cordoned in {site.backend.name} as muster#{number}", why
        taken.append(node)
        held = site.backend.held(NODES)
        assert (held[node].number == number and len(held[node].reason) <= 200
                and held[node].reason.isprintable())
        assert {node: one.holder for node, one in held.items()} == {**free,
                                                                    **dict.fromkeys(taken, Holder.US)}, why
    assert [done.message for done in give(store, site, *NODES)] == [
        f"muster#{number} is released" for number in range(1, len(NODES) + 1)]
    assert {node: one.holder for node, one in site.backend.held(NODES).items()} == free


class Dying:
    """The same back end, at which one is killed right before or right after an operation."""

    def __init__(self, backend: Backend, action: str, after: bool) -> None:
        self.name, self.held = backend.name, backend.held
        self._backend, self._action, self._after = backend, action, after

    def isolate(self, node: str, reason: str) -> None:
        self._do("isolate", node, reason)

    def release(self, node: str, shown: str = "") -> None:
        self._do("release", node, shown)

    def _do(self, action: str, *words: str) -> None:
        if action == self._action and not self._after:
            raise Death
        getattr(self._backend, action)(*words)
        if action == self._action:
            raise Death


@BOOKS
@pytest.mark.parametrize("after", [False, True])
def test_killed_while_it_cordons_the_next_run_finds_out_what_was_done(
    store: Store, site: Site, after: bool,
) -> None:
    with suppress(Death):
        cordon(store, Dying(site.backend, "isolate", after), ["gpu008"], "fan", "me", CLOCK)
    assert holder(site, "gpu008") is (Holder.US if after else Holder.NO_ONE)
    assert [
        one.state for one in open_cordons(store)] == [CordonState.MEANT] and lines(store)[0].outcome is None
    assert (give(store, site, "gpu008")[0].message
            == ("muster#1 is released" if after else "there is no cordon of ours"))
    assert holder(site, "gpu008") is Holder.NO_ONE and open_cordons(
        store) == [] and all(line.outcome for line in lines(store))


@BOOKS
@pytest.mark.parametrize("after", [False, True])
def test_killed_while_it_releases_the_next_run_finds_out_what_was_done(
    store: Store, site: Site, after: bool,
) -> None:
    take(store, site, "gpu008")
    with suppress(Death):
        uncordon(store, Dying(site.backend, "release", after), ["gpu008"], "done", "me", CLOCK)
    assert holder(site, "gpu008") is (Holder.NO_ONE if after else Holder.US)
    said = take(store, site, "gpu008")[0].message
    assert said == (
        f"cordoned in {site.backend.name} as muster#2" if after else "cordoned already as muster#1: fan")
    assert all(line.outcome for line in lines(store))


NOTES = {"gpu003": "{}: fan - KEEP DOWN until Friday", "gpu004": "{}: KEEP DOWN - riser change until Friday",
         "gpu005": "{}: KEEP DOWN; fan"}


def test_what_a_person_writes_beside_our_mark_makes_the_node_theirs_until_it_is_adopted(store: Store,
                                                                                        site: Site) -> None:
    if isinstance(site, KubernetesSite):
        pytest.skip("there the mark is a taint, and what is written beside it an annotation")
    take(store, site, "gpu002", *NOTES)
    marks = {node: str(open_cordons(store, [node])[0].mark) for node in NOTES}
    assert {node: site.backend.held([node])[node].reason for node in NOTES} == {
        node: f"{mark}: fan" for node, mark in marks.items()}
    for node, mark in marks.items():
        site.hold(node, NOTES[node].format(mark))
    before = {node: site.shown(node) for node in NOTES}
    for nodes in (list(NOTES), None):
        done = {one.node: one for one in uncordon(store, site.backend, nodes, "done", "me", CLOCK)}
        for node in NOTES:
            assert (done[node].failed and done[node].held and "KEEP DOWN" in done[node].message
                    and f"muster cordon adopt {node}" in done[node].message)
    assert {holder(site, node) for node in NOTES} == {Holder.US}
    assert {node: site.shown(node) for node in NOTES} == before or not isinstance(site, (Memory, SlurmSite))
    assert (sorted(one.node for one in open_cordons(store)) == list(NOTES)
            and holder(site, "gpu002") is Holder.NO_ONE)
    for left in take(store, site, *NOTES):
        assert left.message.startswith(f"left alone, beside {marks[left.node]} a person wrote: ")
    adopted = adopt(store, site.backend, list(NOTES), "agreed with them", "me", CLOCK)
    assert [one.message.startswith("adopted as muster#") and not one.failed
            for one in adopted] == [True] * len(NOTES)
    for given in give(store, site, *NOTES):
        assert given.message.endswith(" is released") and holder(site, given.node) is Holder.NO_ONE


@BOOKS
def test_a_node_that_a_person_noted_upon_can_be_left_to_them(store: Store, site: Site) -> None:
    if isinstance(site, KubernetesSite):
        pytest.skip("there the mark is a taint, and what is written beside it an annotation")
    take(store, site, "gpu003")
    site.hold("gpu003", f"{open_cordons(store)[0].mark}: KEEP DOWN")
    done = forget(store, site.backend, ["gpu003"], "it is theirs", "me", CLOCK)[0]
    assert done.held and not done.failed and open_cordons(store) == [] and strays(store) == []
    assert holder(site, "gpu003") is Holder.OTHERS and "KEEP DOWN" in site.shown(
        "gpu003") and "muster" not in site.shown("gpu003")


@BOOKS
@pytest.mark.parametrize("act", ["adopt", "forget"])
def test_a_mark_of_another_store_is_settled_by_a_person_and_by_nothing_else(
    store: Store, site: Site, tmp_path: Path, act: str,
) -> None:
    with opened(tmp_path / "other", make=True) as other:
        take(other, site, "gpu005")
        assert take(
            store, site, "gpu005")[0].message.startswith("left alone, a mark that this store does not know: ")
        assert [done.message for done in give(store, site, "gpu005")] == [
            "there is no cordon of ours"] and uncordon(store, site.backend, None, "all", "me", CLOCK) == []
        done = {"adopt": adopt, "forget": forget}[
            act](store, site.backend, ["gpu005"], "the old head is gone", "me", CLOCK)[0]
        assert not done.failed and strays(store) == []
        if act == "adopt":
            assert done.message.startswith(
                "adopted as muster#1; it was muster:") and holder(site, "gpu005") is Holder.US
            held = give(other, site, "gpu005")[0]       # to which it is a stranger's now
            assert held.held and holder(site, "gpu005") is Holder.US
            assert give(store, site, "gpu005")[0].message == "muster#1 is released"
        assert holder(site, "gpu005") is Holder.NO_ONE
