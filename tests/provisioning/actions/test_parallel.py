"""Several calls at a time: each done once, preceded in the caller's thread, some at a time."""

from __future__ import annotations

import threading
import time

import pytest

from provisioning.actions.base import ActionError, call_each
from provisioning.actions.parallel import WIDTH, in_parallel


def test_each_call_is_made_once_and_some_at_a_time() -> None:
    lock, now, most, made = threading.Lock(), [0], [0], []

    def call(name: str) -> str:
        with lock:
            made.append(name)
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.005)
        with lock:
            now[0] -= 1
        return name.upper()

    names = [f"n{at}" for at in range(60)]
    found = in_parallel({name: (lambda name=name: call(name)) for name in names}, print, "x")
    assert list(found.items()) == [
        (name, name.upper()) for name in names] and sorted(made) == sorted(names) and 1 < most[0] <= WIDTH
    assert in_parallel({}, print, "x") == {}


def test_what_goes_before_a_call_is_in_the_callers_thread_just_before_it_and_may_refuse_it() -> None:
    begun: list[str] = []
    made: list[str] = []
    behind: list[int] = []

    def before(name: str) -> None:
        assert threading.current_thread() is threading.main_thread()
        begun.append(name)
        behind.append(len(begun) - len(made))
        if name.endswith("3"):
            raise ActionError(f"{name}: others hold it")

    names = [f"n{at:02d}" for at in range(40)]
    found = in_parallel({name: (lambda name=name: made.append(name)) for name in names}, print, "x", before)
    refused = [name for name in names if name.endswith("3")]
    assert [
        name for name, given in found.items() if isinstance(given, ActionError)] == refused and begun == names
    assert sorted(made) == [
        name for name in names if name not in refused] and max(behind) <= WIDTH + len(refused) + 1
    assert all(isinstance(given, ActionError)
               for given in in_parallel(dict.fromkeys(refused, print), print, "x", before).values())


def test_an_error_of_one_call_is_its_own_and_any_other_ends_it_all() -> None:
    def no() -> None:
        raise ActionError("no")

    def bug() -> None:
        raise KeyError("a")

    found = in_parallel({"a": no, "b": lambda: None}, print, "x")
    assert str(found["a"]) == "no" and found["b"] is None
    with pytest.raises(KeyError):
        in_parallel({"a": bug, "b": lambda: None}, print, "x")


def test_a_back_end_without_threads_is_asked_one_after_another() -> None:
    order: list[str] = []

    def call(name: str) -> None:
        order.append(f"call {name}")
        if name == "b":
            raise ActionError("not b")

    def before(name: str) -> None:
        order.append(f"before {name}")
        if name == "c":
            raise ActionError("not c")

    assert call_each(object(), {name: (lambda name=name: call(name)) for name in "abc"}, before) == {
        "b": "not b", "c": "not c"}
    assert order == ["before a", "call a", "before b", "call b", "before c"]
