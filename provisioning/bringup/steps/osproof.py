"""What proves that a machine's operating system is installed: its installer's report, and where that has no
host key, the machine's own sign as well; and what of it is kept. An installer that has done nothing yet does
not know what others installed: the machine is asked, too, before anything is put over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from inventory.model import Node
from inventory.text import clean
from provisioning.osinstall.base import OsBackend, OsReport, OsState
from provisioning.osinstall.hostkeylines import blobs, kept

Proof: TypeAlias = Callable[[Node], OsReport]
_IMAGE, _KEYS = "os.image", "os.host_keys"
_MOST = 300


class OsProof:
    """`look` asks the machine over SSH. Raises OsError where the installer cannot be asked."""

    def __init__(self, backend: OsBackend, look: Proof) -> None:
        self._backend, self._look = backend, look

    def __call__(self, node: Node) -> OsReport:
        report = self._backend.state(node)
        if self._backend.name == "none":
            return report
        if report.state is OsState.PLANNED:
            return self._unless_there(node, report)
        if report.state is not OsState.INSTALLED or report.host_keys:
            return report
        seen = self._look(node)
        message = clean(f"{report.message}; the machine itself: {seen.message}", _MOST)
        if seen.state is OsState.INSTALLED:
            return replace(report, message=message, image=report.image or seen.image,
                           host_keys=seen.host_keys, answered=True)
        # Its installer is done with it, and what answers there is not yet, or not provably, that system.
        state = OsState.UNKNOWN if seen.state is OsState.UNKNOWN else OsState.INSTALLING
        return replace(report, state=state, message=message, advice=seen.advice)

    def _unless_there(self, node: Node, report: OsReport) -> OsReport:
        seen = self._look(node)
        if not seen.answered or seen.state not in (OsState.INSTALLED, OsState.UNKNOWN):
            return report
        return replace(seen, message=clean(f"{seen.message}; {self._backend.name}: {report.message}", _MOST))


def keep(report: OsReport) -> dict[str, str]:
    """What the store keeps of a proof with the machine."""
    return {_IMAGE: report.image, _KEYS: kept(report.host_keys)}


def proven_keys(held: Mapping[str, str]) -> tuple[bytes, ...]:
    """The host keys, in wire form, that came with the proof that was kept."""
    return blobs(held.get(_KEYS, ""))
