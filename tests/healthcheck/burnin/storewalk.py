"""Prints where our store for torch.distributed and PyTorch's own HashStore answer differently: `python
storewalk.py SEED OPERATIONS`.

Then it sets a rank's process group up and asks the group's store, as NCCL does at the first collective.

Both are asked from C++ (through a PrefixStore), as gloo and NCCL ask; ours over a connection to a real key
server. Run by test_store.py, in a Python that has PyTorch.
"""

from __future__ import annotations

import datetime
import gc
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from healthcheck.burnin.onnode.allreduce import grouped
from healthcheck.burnin.onnode.store import torch_store
from healthcheck.burnin.wire import TaskKeys, connected, greeted, token_of
from provisioning.burnin.keyserver import KeyServer

KEYS = ("a", "b/c", "", "\N{SNOWMAN}")
NUMBERS = ("n", "m")
VALUES = ("", "x", "\0y", "longer " * 20)
SOON = datetime.timedelta(milliseconds=20)


def operation(choose: random.Random) -> tuple[str, tuple[Any, ...]]:
    """One question to a store: its method and words."""
    key, other, number = choose.choice(KEYS), choose.choice(KEYS), choose.choice(NUMBERS)
    return choose.choice((
        ("set", (key, choose.choice(VALUES))), ("get", (choose.choice(NUMBERS + KEYS),)),
        ("add", (number, choose.randint(-3, 9))),
        ("compare_set", (key, choose.choice(VALUES), choose.choice(VALUES))),
        ("append", (key, choose.choice(VALUES))),
        ("check", ([key, number],)), ("wait", ([key], SOON)),
        ("delete_key", (choose.choice(NUMBERS + KEYS),)), ("num_keys", ()),
        ("multi_set", ([key, other], [choose.choice(VALUES), "z"])), ("multi_get", ([key, other],)),
        ("clone", ())))


def answer(store: Any, name: str, words: tuple[Any, ...]) -> tuple[Any, Any]:
    """(what it says, the store to go on with); an error by its kind, because the words are each store's
    own."""
    try:
        said = getattr(store, name)(*words)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return "late" if "timeout" in str(error).lower() else f"{type(error).__name__}: {error}", store
    return ("a store", said) if name == "clone" else (said, store)


def main() -> None:
    import torch.distributed as dist
    choose = random.Random(int(sys.argv[1]))
    with KeyServer("t" * 64, "run", ["n1"], host="127.0.0.1") as server:
        server.open("task")
        link = greeted(connected(["127.0.0.1"], server.port), "rank", "n1", "run", token_of("t" * 64, "n1"))
        plain = dist.HashStore()
        plain.set_timeout(SOON)
        owned = torch_store(TaskKeys(link, "task"), SOON.total_seconds())
        ours, theirs = (dist.PrefixStore("p", store) for store in (owned, plain))
        counts: dict[str, int] = {}
        for at in range(int(sys.argv[2])):
            name, words = operation(choose)
            mine, ours = answer(ours, name, words)
            right, theirs = answer(theirs, name, words)
            counts[name] = counts.get(name, 0) + 1
            if mine != right:
                print(f"{at}: {name}{words!r}: {mine!r}, and HashStore says {right!r}")
        print(f"asked: {sorted(counts)}")
        rank = SimpleNamespace(link=lambda: link, task={"id": "task"}, seconds=10.0, number=0, world=1,
                               at=lambda _phase: None)
        grouped(rank, SimpleNamespace(cuda=False))
        gc.collect()
        store = dist.distributed_c10d._get_default_store()
        store.set("id", "of a communicator")
        print(f"after set-up: {store.get('id')!r}")


if __name__ == "__main__":
    main()
