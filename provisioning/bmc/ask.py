"""Asks the controllers of many nodes at once; answers come as they are there, and none waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

from inventory.errors import MusterError
from inventory.model import Node
from provisioning.bmc.base import BmcError, BmcErrorReason, Controller
from provisioning.bmc.connect import controller

T = TypeVar("T")
Connect = Callable[[Node], Controller]


def connector(folder: Path, seconds: float) -> Connect:
    """How a node's controller is reached."""
    return lambda node: controller(node, folder=folder, seconds=seconds)


def ask_controllers(
    nodes: Sequence[Node], reach: Connect, question: Callable[[Controller], T], fanout: int,
) -> Iterator[tuple[Node, T | BmcError]]:
    """What each controller says, or why it does not, as they answer. Each is logged out of again."""
    def one(node: Node) -> T | BmcError:
        try:
            found = reach(node)
        except MusterError as problem:
            return BmcError(BmcErrorReason.NO_SECRET if node.bmc is not None else BmcErrorReason.UNSUPPORTED,
                            str(problem))
        try:
            return question(found)
        except BmcError as problem:
            return problem
        finally:
            found.close()

    pool = ThreadPoolExecutor(max(1, min(fanout, len(nodes))), thread_name_prefix="bmc")
    try:
        futures = {pool.submit(one, node): node for node in nodes}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
