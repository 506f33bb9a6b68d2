"""Finds the hosts that stand behind the hashed lines of a known_hosts file.

A hash has a salt of its own, so it can only be tried with one name after the other: names times hashes
operations, unless the guess is good. As a hash fits one name, it is tried until it fits; and as such files
mostly grow in the order of names, the first guess is the name that follows the last one found. What was tried
is remembered between commands (`hostcache`).
"""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from inventory import hostcache
from inventory.hostcache import HostCache, NameHash

WORTH_LOADING = 100         # hashes in a file
WORTH_SAVING = 10_000       # operations, 0.7 microseconds each

_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))

Progress: TypeAlias = "Callable[[int, int], None]"


def hasher(salt: bytes) -> Callable[[bytes], bytes]:
    """HMAC-SHA1 under a salt of at most 64 bytes. What depends on the salt alone is computed once, so that an
    operation takes half the time of `hmac.digest`."""
    key = salt.ljust(64, b"\0")
    inner = hashlib.sha1(key.translate(_INNER)).copy  # noqa: S324  (the form of the file)
    outer = hashlib.sha1(key.translate(_OUTER)).copy  # noqa: S324

    def digest(message: bytes) -> bytes:
        first, second = inner(), outer()
        first.update(message)
        second.update(first.digest())
        return second.digest()

    return digest


def encoded(name: str) -> bytes:
    """A name in the bytes that are hashed."""
    return name.encode("utf-8", "surrogateescape")


class HashedNames:
    """The hashes of one file, and the names looked up among them; safe to ask from many threads, as no lock
    is held while names are tried. `file`, if any, is the known_hosts file whose cache may be used."""

    def __init__(self, hashes: Iterable[NameHash], file: str | None) -> None:
        self._hashes = dict.fromkeys(hashes)
        self._file = file
        self._found: dict[str, tuple[NameHash, ...]] = {}
        self._owners: dict[NameHash, str] = {}
        self._cache: HostCache | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._hashes)

    def of(self, name: str) -> tuple[NameHash, ...]:
        """The hashes that fit a name."""
        if name not in self._found:
            self.find((name,))
        return self._found[name]

    def find(
        self, names: Iterable[str], *, remember: bool = False, progress: Progress | None = None,
    ) -> None:
        """Looks up many names at once, for `of`. With `remember` the result is kept for later commands, if it
        took long. `progress` gets the number of hashes done, and of all."""
        wanted = [name for name in dict.fromkeys(names) if name not in self._found]
        if not wanted:
            return
        cache = self._loaded()
        fitting: dict[str, list[NameHash]] = {}
        waiting: dict[int, list[str]] = {}
        for name in wanted:
            tried, held = self._remembered(cache, name)
            fitting[name] = held
            self._owners.update(dict.fromkeys(held, name))
            waiting.setdefault(tried, []).append(name)
        operations = self._try(cache, waiting, fitting, progress)
        self._found |= {name: tuple(fits) for name, fits in fitting.items()}
        if remember and operations > WORTH_SAVING and self._file is not None:
            hostcache.save(self._file, cache.learned(tuple(self._hashes), fitting))

    def _try(
        self, cache: HostCache, waiting: dict[int, list[str]], fitting: dict[str, list[NameHash]],
        progress: Progress | None,
    ) -> int:
        """Tries each hash with the names that have not met it, and adds those that fit. `waiting` has the
        names by the number of the cache's hashes that they have met. Returns the number of operations."""
        starts = sorted(waiting)
        guesses = [_Guesses([name for start in starts[:count] for name in waiting[start]])
                   for count in range(1, len(starts) + 1)]
        places = {each: place for place, each in enumerate(cache.tried)}
        for number, each in enumerate(self._hashes):
            if progress is not None:
                progress(number, len(self._hashes))
            name = self._owners.get(each)
            count = bisect_right(starts, places.get(each, len(places))) if name is None else 0
            if count and (name := guesses[count - 1].name_of(each)) is not None:
                self._owners[each] = name
            # Another thread may have found it meanwhile, for a name that both look up.
            if name in fitting and each not in fitting[name]:
                fitting[name].append(each)
        if progress is not None:
            progress(len(self._hashes), len(self._hashes))
        return sum(each.operations for each in guesses)

    def _remembered(self, cache: HostCache, name: str) -> tuple[int, list[NameHash]]:
        """How many of the cache's hashes a name has met, and those that fit it. They are tried again, so that
        no cache can lend a host the key of another."""
        tried, fits = cache.about(name)
        held = [each for each in fits if each in self._hashes]
        message = encoded(name)
        if all(hasher(each.salt)(message) == each.digest for each in held):
            return tried, held
        return 0, []

    def _loaded(self) -> HostCache:
        with self._lock:
            if self._cache is None:
                loaded = (hostcache.load(self._file)
                          if self._file is not None and len(self._hashes) >= WORTH_LOADING else None)
                self._cache = loaded or HostCache()
            return self._cache


class _Guesses:
    """Names to try a hash with, the likeliest first. Counts the operations."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._messages = [encoded(name) for name in names]
        self._last, self._step = -1, 1
        self.operations = 0

    def name_of(self, each: NameHash) -> str | None:
        """The name that a hash fits, if any: looked for from the place as far behind the last one as that was
        behind the one before, then around it, ever further."""
        digest, wanted, messages = hasher(each.salt), each.digest, self._messages
        many = len(messages)
        start = (self._last + self._step) % many
        place = start
        self.operations += 1
        if digest(messages[start]) != wanted:
            # Negative places count from the end, so both ways lead halfway around.
            back = (many - 1) // 2
            for away in range(1, many // 2 + 1):
                self.operations += 2
                if digest(messages[place := start + away - many]) == wanted:
                    break
                if away <= back and digest(messages[place := start - away]) == wanted:
                    break
            else:
                return None
        place %= many
        self._last, self._step = place, place - self._last
        return self._names[place]
