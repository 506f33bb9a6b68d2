"""What triage decided, in the store: the breaker closes and opens again in one plan,
and by itself gives no room back."""

from __future__ import annotations

from healthcheck.store.file import Store
from healthcheck.store.verdicts import close_breaker, write
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import TriagePlan
from tests.healthcheck.triage.made import NOW, policy


def plan(opens: str = "", closes: str = "", now: float = NOW) -> TriagePlan:
    return TriagePlan(now, (), (), (), (), opens, closes)


def test_a_breaker_that_closes_by_itself_may_open_again_in_the_same_plan(store: Store) -> None:
    write(store, plan(opens="many"))
    write(store, plan(opens="many again", closes="there was room for 6 h", now=NOW + 7))
    assert [tuple(row) for row in store.rows("SELECT opened, closed, why FROM breaker ORDER BY id")] == [
        (NOW, NOW + 7, "many"), (NOW + 7, None, "many again")]


def test_only_a_person_who_closes_the_breaker_gives_its_room_back(store: Store) -> None:
    with store.writing() as db:
        db.execute("INSERT INTO node (id, name) VALUES (1, 'n1')")
        db.execute("INSERT INTO verdict (id, node, fault, isolation, repair, owner, why, evidence, "
                   "began, seen) VALUES (1, 1, 'f', 'evict', 'reboot', '', '', '[]', 0, 0)")
        db.execute("INSERT INTO ledger (id, time, who, action, node, why, evidence, outcome) "
                   "VALUES (1, 0, '', 'cordon', 'n1', '', '', 'cordoned')")
        db.execute("INSERT INTO cordon (node, backend, why, who, state, began, line, verdict) "
                   "VALUES ('n1', 'slurm', '', '', 'held', ?, 1, 1)",
                   (NOW - 60,))
    write(store, plan(opens="many"))
    write(store, plan(closes="there was room for 6 h"))
    assert [one.node for one in gather(store, (), policy(), NOW).isolated] == ["n1"]
    write(store, plan(opens="many"))
    with store.writing() as db:
        assert close_breaker(db, NOW, "a person", "the feed is back")
    assert gather(store, (), policy(), NOW).isolated == ()
