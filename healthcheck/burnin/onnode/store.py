"""The rendezvous store of torch.distributed over our connection to the head's key server. Python 3.8."""

from __future__ import annotations

import datetime
from typing import Any

from healthcheck.burnin.wire import RequestRefused, TaskKeys


def torch_store(keys: TaskKeys, seconds: float) -> Any:
    """A torch.distributed.Store with its keys at the head, where they survive a rank; waits `seconds`."""
    import torch.distributed

    class Store(torch.distributed.Store):   # type: ignore[misc]
        """What gloo and NCCL ask of a store.

        c10d calls these by name, two of them by their C++ names (PythonStore in
        torch/csrc/distributed/c10d/init.cpp). What is not here is an error of the rank's that asks for it:
        NCCL's process group also deletes keys, compares, and asks for a clone.
        """

        def __init__(self) -> None:
            super().__init__()
            self.seconds = seconds

        def set(self, key: str, value: Any) -> None:
            keys.set(key, as_bytes(value))

        def get(self, key: str) -> bytes:
            try:
                return keys.get(key, self.seconds)
            except RequestRefused as error:
                raise late([key], error, self.seconds) from None

        def add(self, key: str, amount: int) -> int:
            return keys.add(key, amount)

        def check(self, names: Any) -> bool:
            return keys.check(list(names))

        def wait(self, names: Any, timeout: Any = None) -> None:
            patience = self.seconds if timeout is None else timeout.total_seconds()
            try:
                keys.wait(list(names), patience)
            except RequestRefused as error:
                raise late(names, error, patience) from None

        def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
            return keys.compare_set(key, as_bytes(expected), as_bytes(desired))

        def append(self, key: str, more: Any) -> None:
            keys.append(key, as_bytes(more))

        def delete_key(self, key: str) -> bool:
            return keys.delete(key)

        deleteKey = delete_key

        def num_keys(self) -> int:
            return keys.count()

        getNumKeys = num_keys

        def clone(self) -> Any:
            return self     # a connection serves all threads of its rank

        def set_timeout(self, timeout: Any) -> None:
            self.seconds = timeout.total_seconds()

        @property
        def timeout(self) -> Any:
            return datetime.timedelta(seconds=self.seconds)

    return Store()


def as_bytes(value: Any) -> bytes:
    """A value as c10d gives it, text or bytes."""
    return value.encode() if isinstance(value, str) else bytes(value)


def late(names: Any, error: RequestRefused, seconds: float) -> RuntimeError:
    """What the head's refusal means, in words that name the key."""
    return RuntimeError("the key %s: %s after %g s" % (", ".join(map(str, names))[:200], error, seconds))
