"""An inventory is read over several connections: the same is found as by one, whatever becomes of the
others."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import Hidden
from provisioning.bmc.redfish.controller import RedfishController
from provisioning.bmc.redfish.wire import Deadline, RedfishEndpoint
from tests.provisioning.bmc.redfishdocs import Papers, service
from tests.provisioning.bmc.test_redfish_log import linked_entries
from tests.provisioning.bmc.test_redfish_vendors import hgx


class Beside(Papers):
    """One more connection, to which something happens."""

    def __init__(self, papers: Papers, happens: Any, served: int = 0) -> None:
        super().__init__(papers._find)
        self._happens = happens
        self._left = served

    def ask(self, method: str, path: str, *rest: Any) -> HttpAnswer:
        if self._left <= 0:
            found = self._happens(path)
            if isinstance(found, BaseException):
                raise found
            if found is not None:
                return HttpAnswer(found, {}, b"{}")
        self._left -= 1
        return super().ask(method, path, *rest)


def test_as_many_are_asked_at_once_as_there_are_connections() -> None:
    controller, papers = service(hgx())
    together = threading.Barrier(8)
    met: list[int] = []

    def meets(path: str) -> None:
        if "/Processors/GPU" in path and not met:
            together.wait(10)
            met.append(1)

    controller.session._connection = lambda: Beside(papers, meets
                                                    )  # type: ignore[assignment,method-assign,return-value]
    first = papers.ask

    def ask(method: str, path: str, *rest: Any) -> HttpAnswer:
        meets(path)
        return first(method, path, *rest)

    papers.ask = ask  # type: ignore[assignment,method-assign]
    assert len(controller.hardware().parts["gpu"]) == 8     # type: ignore[arg-type]
    assert met


@pytest.mark.parametrize("served", [0, 1, 3])
@pytest.mark.parametrize("happens", [
    BmcError(BmcErrorReason.UNREACHABLE, "no more connections"), BmcError(BmcErrorReason.TIMEOUT, "slow"),
    BmcError(BmcErrorReason.TLS, "no handshake"), BmcError(BmcErrorReason.BROKEN, "no HTTP"), 503,
    429, 401, 302],
    ids=str)
def test_the_same_is_found_whatever_happens_to_the_other_connections(happens: Any, served: int) -> None:
    whole = service(hgx())[0].hardware()
    controller, papers = service(hgx())
    controller.session._connection = lambda: Beside(papers, lambda path: happens, served
                                                    )  # type: ignore[assignment,method-assign,return-value]
    assert controller.hardware() == whole
    log, papers = service(linked_entries(100))
    log.session._connection = lambda: Beside(papers, lambda path: happens, served
                                             )  # type: ignore[assignment,method-assign,return-value]
    assert len(log.log().log.events) == 100


def test_no_document_is_read_twice() -> None:
    controller, papers = service(hgx())
    controller.hardware()
    paths = [path for _, path, _ in papers.asked]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize(("seconds", "answer_s", "given"),
                         [(120.0, None, 120.0), (600.0, 30.0, 30.0), (5.0, 30.0, 5.0)])
def test_each_answer_has_the_whole_time_of_the_call_unless_less_is_asked_for(
    seconds: float, answer_s: float | None, given: float,
) -> None:
    _, papers = service(hgx())
    left: list[float] = []

    def ask(method: str, path: str, headers: Any, body: Any, deadline: Deadline) -> HttpAnswer:
        left.append(deadline.left())
        return Papers.ask(papers, method, path, headers, body, deadline)

    controller = RedfishController(RedfishEndpoint("gpu001", "127.0.0.1", 443, "pin", "0" * 64),
                                   lambda: ("root", Hidden("pw")), seconds, answer_s=answer_s)
    controller.session._wire = papers  # type: ignore[assignment]
    controller.session._connection = lambda: papers  # type: ignore[assignment,method-assign,return-value]
    papers.ask = ask  # type: ignore[method-assign]
    controller.power()
    assert given - 2 < left[0] <= given
