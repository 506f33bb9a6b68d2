"""The keys of the open tasks, and who waits for which: a question is answered at once, or kept until what it
waits for is there, its time is over, or its task is closed. No socket, no clock of its own."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from healthcheck.burnin.wire import MOST_KEY, MOST_VALUE, MOST_VALUES, Garbled, coded, decoded

LONGEST_S = 24 * 3600.0
MOST_NUMBER = 2 ** 63
MOST_KEYS = 262_144         # of one question, and of one task


@dataclass(frozen=True)
class KeyReply:
    """What to say to whom."""

    who: Hashable
    message: dict[str, Any]


@dataclass(eq=False)
class KeyRequest:
    """A question that waits: for which keys still, and which value is to be sent (None: none)."""

    who: Hashable
    task: str
    missing: set[str]
    until: float
    value_of: str | None = None
    over: bool = field(default=False)


class RendezvousStore:
    """Values by task and key. Everything it is asked comes from nodes: what is no question raises Garbled,
    what is too large gets that as its answer."""

    def __init__(self) -> None:
        self._tasks: dict[str, dict[str, bytes]] = {}
        self._bytes = 0
        self._waiting: dict[tuple[str, str], dict[KeyRequest, None]] = {}
        self._of: dict[Hashable, KeyRequest] = {}
        self._until: list[tuple[float, int, KeyRequest]] = []
        self._number = itertools.count()

    @property
    def nearest(self) -> float | None:
        """When the time of the next question is over, by the clock of `ask`."""
        while self._until and self._until[0][2].over:
            heapq.heappop(self._until)
        return self._until[0][0] if self._until else None

    @property
    def used(self) -> int:
        """Bytes of all keys and values."""
        return self._bytes

    def open(self, task: str) -> None:
        """From now on this task may have keys."""
        self._tasks.setdefault(task, {})

    def close(self, task: str) -> list[KeyReply]:
        """Its keys are gone; the answers to those who waited for one."""
        keys = self._tasks.pop(task, {})
        self._bytes -= sum(_size(key, value) for key, value in keys.items())
        waiting = [request for request in self._of.values() if request.task == task]
        return [self._answered(request, {"error": "the task is over"}) for request in waiting]

    def values(self, task: str) -> dict[str, bytes]:
        """All that a task has, by key without the task's name."""
        return dict(self._tasks.get(task, {}))

    def forget(self, who: Hashable) -> None:
        """It waits for nothing any more."""
        request = self._of.get(who)
        if request is not None:
            self._unlist(request)

    def overdue(self, now: float) -> list[KeyReply]:
        """The answers to those whose time is over."""
        found = []
        while (nearest := self.nearest) is not None and nearest <= now:
            found.append(self._answered(heapq.heappop(self._until)[2], {"error": "timeout"}))
        return found

    def ask(self, who: Hashable, message: dict[str, Any], now: float) -> list[KeyReply] | KeyRequest:
        """Answers to whoever has one now, the asker first; or its question, if that waits. Raises Garbled."""
        op = message.get("op")
        if op in ("check", "wait"):
            task, keys = _places(message.get("keys"))
        else:
            task, key = _place(message.get("key"))
            keys = [key]
        values = self._tasks.get(task)
        if values is None:
            return [KeyReply(who, {"error": "no such task"})]
        if any(len(key.encode("utf-8", "surrogatepass")) > MOST_KEY for key in keys):
            return [KeyReply(who, {"error": f"a key of more than {MOST_KEY} bytes"})]
        if op == "get":
            return self._wait(KeyRequest(who, task, {key for key in keys if key not in values},
                                         _until(message, now), keys[0]), values)
        if op == "wait":
            return self._wait(KeyRequest(who, task, {key for key in keys if key not in values},
                                         _until(message, now)), values)
        if op == "set":
            return self._set(who, task, keys[0], decoded(message.get("value")), {})
        if op == "append":
            more = decoded(message.get("value"))
            return self._set(who, task, keys[0], values.get(keys[0], b"") + more, {})
        if op == "compare-set":
            return self._compare_set(who, task, keys[0], decoded(message.get("expected")),
                                     decoded(message.get("value")))
        if op == "add":
            return self._add(who, task, keys[0], message.get("amount"))
        if op == "check":
            return [KeyReply(who, {"yes": all(key in values for key in keys)})]
        if op == "count":
            return [KeyReply(who, {"number": len(values)})]
        if op == "delete":
            gone = values.pop(keys[0], None)
            self._bytes -= 0 if gone is None else _size(keys[0], gone)
            return [KeyReply(who, {"yes": gone is not None})]
        raise Garbled("no such question")

    def _wait(self, request: KeyRequest, values: dict[str, bytes]) -> list[KeyReply] | KeyRequest:
        if not request.missing:
            return [KeyReply(request.who, _there(request, values))]
        for key in request.missing:
            self._waiting.setdefault((request.task, key), {})[request] = None
        self._of[request.who] = request
        heapq.heappush(self._until, (request.until, next(self._number), request))
        return request

    def _set(
        self, who: Hashable, task: str, key: str, value: bytes, answer: dict[str, Any],
    ) -> list[KeyReply]:
        values = self._tasks[task]
        old = values.get(key)
        more = _size(key, value) - (0 if old is None else _size(key, old))
        if len(value) > MOST_VALUE:
            return [KeyReply(who, {"error": f"a value of more than {MOST_VALUE} bytes"})]
        if self._bytes + more > MOST_VALUES or (old is None and len(values) >= MOST_KEYS):
            return [KeyReply(who, {"error": "there is no room for more keys"})]
        values[key] = value
        self._bytes += more
        return [KeyReply(who, answer), *self._came(task, key)]

    def _compare_set(
        self, who: Hashable, task: str, key: str, expected: bytes, desired: bytes,
    ) -> list[KeyReply]:
        # As c10d's own stores answer (HashStore.cpp, TCPStoreBackend.cpp).
        found = self._tasks[task].get(key)
        if found == expected or (found is None and not expected):
            return self._set(who, task, key, desired, {"value": coded(desired)})
        return [KeyReply(who, {"value": coded(expected if found is None else found)})]

    def _add(self, who: Hashable, task: str, key: str, amount: Any) -> list[KeyReply]:
        if not isinstance(amount, int) or isinstance(amount, bool):
            raise Garbled("an amount that is no number")
        try:
            total = int(self._tasks[task].get(key, b"0")[:32]) + amount
        except ValueError:
            return [KeyReply(who, {"error": "its value is no number"})]
        if not -MOST_NUMBER <= total < MOST_NUMBER:
            return [KeyReply(who, {"error": "a number of more than 64 bits"})]
        return self._set(who, task, key, b"%d" % total, {"number": total})

    def _came(self, task: str, key: str) -> list[KeyReply]:
        found = []
        for request in self._waiting.pop((task, key), ()):
            request.missing.discard(key)
            if not request.missing:
                found.append(self._answered(request, _there(request, self._tasks[task])))
        return found

    def _answered(self, request: KeyRequest, message: dict[str, Any]) -> KeyReply:
        self._unlist(request)
        return KeyReply(request.who, message)

    def _unlist(self, request: KeyRequest) -> None:
        request.over = True
        if self._of.get(request.who) is request:
            del self._of[request.who]
        for key in request.missing:
            others = self._waiting.get((request.task, key), {})
            others.pop(request, None)
            if not others:
                self._waiting.pop((request.task, key), None)


def _there(request: KeyRequest, values: dict[str, bytes]) -> dict[str, Any]:
    # A key that another has deleted meanwhile was there when it was asked for, and is empty now.
    return {} if request.value_of is None else {"value": coded(values.get(request.value_of, b""))}


def _place(name: Any) -> tuple[str, str]:
    if not isinstance(name, str) or "/" not in name:
        raise Garbled("a key without a task")
    task, _, key = name.partition("/")
    return task, key


def _places(names: Any) -> tuple[str, list[str]]:
    """The task of all of them, and the keys. Raises Garbled where they are of several."""
    if not isinstance(names, list) or not names or len(names) > MOST_KEYS:
        raise Garbled("no list of keys")
    places = [_place(name) for name in names]
    if len({task for task, _ in places}) > 1:
        raise Garbled("keys of several tasks")
    return places[0][0], list(dict.fromkeys(key for _, key in places))


def _until(message: dict[str, Any], now: float) -> float:
    seconds = message.get("seconds")
    if not isinstance(seconds, (int, float)) or isinstance(
        seconds, bool) or math.isnan(seconds if isinstance(seconds, float) else 0):
        raise Garbled("no number of seconds")
    return now + min(max(seconds, 0.0), LONGEST_S)


def _size(key: str, value: bytes) -> int:
    return len(key) + len(value)
