"""A node's new name is in every table that had the old one, whatever tables there are; two histories of one
machine become one."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from healthcheck.store import renaming
from healthcheck.store.cordons import CordonState, cordon_of_mark, mean, open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.ledger import lines
from inventory.errors import StoreError

OLD, NEW, OTHER = "gpu007", "gpu107", "gpu008"
NOW = 1_795_000_000.0


def tables(db: sqlite3.Connection) -> list[str]:
    return [row[0]
            for row in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()]


def fill(db: sqlite3.Connection, name: str, at: float, marker: int) -> None:
    """A row in every table that is about a node in any way: by its row, its name, or in a list."""
    db.execute("INSERT INTO node (name) VALUES (?)", (name,))
    node = db.execute("SELECT id FROM node WHERE name = ?", (name,)).fetchone()[0]
    db.execute("PRAGMA defer_foreign_keys=ON")
    for table in tables(db):
        columns = db.execute(f'PRAGMA table_info("{table}")').fetchall()
        refers = {row["from"]: row["table"] for row in db.execute(f'PRAGMA foreign_key_list("{table}")')}
        about = [row["name"] for row in columns if refers.get(row["name"]) == "node"
                 or (row["name"] in ("node", "nodes") and row["type"] == "TEXT")]
        if not about or table == "node":
            continue
        values: dict[str, Any] = {}
        for row in columns:
            key, kind = row["name"], row["type"]
            if refers.get(key) == "node":
                values[key] = node
            elif key in refers:
                values[key] = db.execute(f'SELECT min(rowid) FROM "{refers[key]}"').fetchone()[  # noqa: S608
                    0]
            elif key == "nodes":
                values[key] = json.dumps([OTHER, name])
            elif key == "node":
                values[key] = name
            elif key == "id":
                continue
            elif key in ("ended", "returned", "shipped", "outcome", "finished", "closed"):
                values[key] = None
            elif kind == "TEXT":
                values[key] = "slurm" if key == "backend" else "held" if key == "state" else "[]" if key in (
                    "symptoms", "evidence") else "x"
            elif kind == "REAL":
                values[key] = at
            else:
                values[key] = marker if kind == "INTEGER" else b""
        if "closed" in values and table == "incident":
            values |= {"closed": "", "cause": f"leaf{marker}"}
        db.execute(
            f'INSERT INTO "{table}" ({", ".join(values)}) VALUES '  # noqa: S608
            f'({", ".join("?" * len(values))})',
            tuple(values.values()))
    db.execute(
        "INSERT INTO version (kind, name, digest, who, began, seen) VALUES ('driver', ?, 'a', '', 0, ?)",
        (name, at))


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with opened(tmp_path / "state", make=True) as opened_:
        with opened_.writing() as db:
            for statement in (
                "INSERT INTO ledger (time, who, action, node, why, evidence) VALUES (0, '', 'x', '', '', '')",
                "INSERT INTO component (kind, serial) VALUES ('gpu', 's')",
                "INSERT INTO fabric_subnet (plane, guids, checked) VALUES ('', '[]', 0)"):
                db.execute(statement)
        yield opened_


def everywhere(store: Store, word: str) -> list[tuple[str, str]]:
    """Each table and column of which some value holds this word."""
    with store.writing() as db:
        return [(table, row["name"]) for table in tables(db)
                for row in db.execute(f'PRAGMA table_info("{table}")').fetchall() if db.execute(
                    f'SELECT 1 FROM "{table}" WHERE instr(CAST("{row["name"]}" AS TEXT), ?)',  # noqa: S608
                    (word,)).fetchone()]


def test_no_table_has_the_old_name_afterwards(store: Store) -> None:
    with store.writing() as db:
        fill(db, OLD, NOW, 1)
    before = everywhere(store, OLD)
    assert len(before) > 14         # or the test fills nothing
    assert renaming.rename(store, OLD, NEW, "ann", NOW + 5) > 14
    assert everywhere(store, OLD) == [] and everywhere(store, NEW) == before
    assert store.check() == [] and renaming.rename(store, OLD, NEW, "ann", NOW + 6) == 0
    assert json.loads(store.rows("SELECT nodes FROM silence")[0][0]) == [OTHER, NEW]


@pytest.mark.parametrize("first", [OLD, NEW])
def test_of_two_histories_the_newer_of_each_stays_open_and_none_is_lost(store: Store, first: str) -> None:
    last = NEW if first == OLD else OLD
    with store.writing() as db:
        fill(db, first, NOW, 1)
        fill(db, last, NOW + 60, 2)
        db.execute("UPDATE cordon SET ended = began WHERE node = ?", (OLD,))
        db.execute("UPDATE rma SET returned = opened WHERE node = ?", (OLD,))
    spells = store.rows("SELECT count(*) FROM spell")[0][0]
    renaming.rename(store, OLD, NEW, "ann", NOW + 90)
    assert everywhere(store, OLD) == [] and store.check() == []
    assert store.rows("SELECT count(*) FROM spell")[0][0] == spells == 2
    assert [row[0] for row in store.rows("SELECT time FROM newest")] == [NOW + 60]
    assert [row[0] for row in store.rows("SELECT swept FROM left_out")] == [NOW + 60]
    assert store.rows("SELECT count(*) FROM spell WHERE ended IS NULL")[0][0] == 1
    assert json.loads(store.rows("SELECT nodes FROM silence")[0][0]) == [OTHER, NEW]


def test_an_open_rma_of_both_names_is_refused_and_nothing_changes(store: Store) -> None:
    with store.writing() as db:
        fill(db, OLD, NOW, 1)
        fill(db, NEW, NOW + 60, 2)
    before = everywhere(store, OLD)
    with pytest.raises(StoreError, match="both names have an open rma"):
        renaming.rename(store, OLD, NEW, "ann", NOW + 90)
    assert everywhere(store, OLD) == before


def test_a_cordon_of_the_old_name_ends_where_the_new_one_has_its_own(store: Store) -> None:
    made = [mean(store, node, "slurm", "fan", "ann", NOW) for node in (OLD, NEW)]
    assert made[0] is not None and made[1] is not None
    renaming.rename(store, OLD, NEW, "ann", NOW + 1)
    assert [one.mark for one in open_cordons(store)] == [made[1].mark]
    over = cordon_of_mark(store, made[0].mark)
    assert over is not None and (over.node, over.state) == (NEW, CordonState.VOID)
    assert [(line.action, line.node, line.outcome)
            for line in lines(store)][-1] == ("reconcile", NEW, "it is over")


def test_a_rename_that_was_begun_is_found_until_it_is_finished_and_goes_on_under_its_line(
        store: Store) -> None:
    begun = renaming.begin(store, OLD, NEW, "moved", "ann", NOW)
    assert renaming.begin(store, OLD, NEW, "again", "bob", NOW + 1) == begun
    renaming.rename(store, OLD, NEW, "ann", NOW + 2)
    assert renaming.unfinished(store) == [begun] and not renaming.finished(store, OLD, NEW)
    renaming.finish(store, begun, "renamed", NOW + 3)
    assert renaming.unfinished(store) == [] and renaming.finished(store, OLD, NEW)
    assert [(line.node, line.why) for line in lines(store, [NEW])] == [(NEW, f"{OLD} -> {NEW}: moved")]
    renaming.rename(store, NEW, "gpu207", "ann", NOW + 4)
    assert [line.node for line in lines(store) if line.action == "rename"] == ["gpu207"]


@pytest.mark.parametrize("table", ["cordon", "rma", "screened"])
def test_a_name_is_known_by_any_of_its_rows_but_the_ledgers(store: Store, table: str) -> None:
    assert not renaming.knows(store, OLD)
    with store.writing() as db:
        db.execute(
            "INSERT INTO ledger (time, who, action, node, why, evidence) VALUES (0, '', 'x', ?, '', '')",
            (OLD,))
        assert not renaming.knows(store, OLD)
        db.execute(
            {"cordon": "INSERT INTO cordon (node, backend, why, who, state, began, line) VALUES (?, '', '', "
                       "'', 'held', 0, 1)",
             "rma": "INSERT INTO rma (node, slot, kind, serial, why, who, reference, evidence, opened) "
                    "VALUES (?, '', '', '', '', '', '', '', 0)",
             "screened": "INSERT INTO screened VALUES (?, '', 0, 0)"}[table], (OLD,))
    assert renaming.knows(store, OLD) and not renaming.knows(store, NEW)


def test_a_burn_in_from_before_renames_is_of_the_names_that_its_nodes_have_now(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        for at, old, new in ((10.0, "a", "b"), (20.0, "b", "c"), (30.0, "x", "a")):
            renaming.finish(store, renaming.begin(store, old, new, "moved", "ann", at), "renamed", at)
        renaming.begin(store, "c", "d", "cut short", "ann", 40.0)
        assert [renaming.name_now(store, name, 5.0) for name in ("a", "b", "c", "x", "q")] == [
            "c", "c", "c", "a", "q"]
        assert [renaming.name_now(store, name, 25.0) for name in ("a", "c", "x")] == ["a", "c", "a"]
