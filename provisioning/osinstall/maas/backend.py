"""The back end: finds a node's machine, says how it stands, and asks MAAS for the next operation towards a
deployed system.

Each look reads the one machine; all machines are listed only to find out which it is. Asked again, MAAS is
read first, so that whoever was killed, or got no answer, doubles nothing. The order is allocate, mark with
the node's name (a workload annotation), deploy: whatever is deployed by muster bears its mark.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from inventory.model import Node
from inventory.text import clean
from inventory.transport.httponce import HttpDeadline
from provisioning.bmc.base import BootTarget
from provisioning.osinstall.base import OsError, OsReport, OsState
from provisioning.osinstall.maas.client import MaasClient
from provisioning.osinstall.maas.identity import contradiction, find, sought
from provisioning.osinstall.maas.machines import MARK, MaasMachine, machine, machines, power_addresses
from provisioning.osinstall.maas.options import MaasOptions, check_options
from provisioning.osinstall.maas.statuses import MaasOperation, may_release, next_step, report
from provisioning.osinstall.maas.wire import MaasError, place

_LIST_S = 15.0              # so old a list is still good for finding another node
_MOST_USER_DATA = 1024 * 1024
_ROUNDS = 8                 # allocate, deploy, and what was tried again


def maas_backend(options: MaasOptions, pause: Callable[[float], None] = time.sleep) -> MaasBackend:
    """The back end for a site's MAAS; nothing is asked yet. Raises OsError for options that cannot work."""
    check_options(options)
    client = MaasClient(place(options.url, cleartext=options.cleartext), options.key, tls=options.tls,
                        seconds=options.seconds, pause=pause)
    return MaasBackend(client, options)


class MaasBackend:
    """An `OsBackend`. A machine that is PLANNED again after INSTALLING (commissioned, tested or released by
    now) waits for the next operation: `install` asks for it."""

    name = "maas"
    target = BootTarget.NONE        # MAAS sets it over the controller
    drives_power = True

    def __init__(
        self, client: MaasClient, options: MaasOptions, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._options = options
        self._clock = clock
        self._lock = threading.Lock()           # of what is known
        self._listing = threading.Lock()        # held while all machines are listed
        self._ids: dict[str, str] = {}
        self._listed: tuple[tuple[MaasMachine, ...], Mapping[str, str]] = ((), {})
        self._listed_at: float | None = None
        self._user = ""

    def state(self, node: Node) -> OsReport:
        """How the node's machine stands. Raises OsError."""
        one = self._machine(node)
        if one is None:
            return OsReport(OsState.PLANNED, f"MAAS has no machine with {sought(node)}", advice=_ENLIST)
        return report(one, self._options)

    def changes(self, node: Node) -> tuple[str, ...]:
        """What `install` would ask for now. Raises OsError."""
        one = self._machine(node)
        if one is None:
            raise OsError(f"MAAS has no machine with {sought(node)}; {_ENLIST}")
        step = next_step(one, self._options, self._account(), node.name)
        if step.refused:
            raise OsError(step.refused)
        at = f"MAAS ({self._client.where})"
        if step.operation is MaasOperation.NOTHING:
            return ()
        if step.operation in (MaasOperation.ALLOCATE, MaasOperation.DEPLOY):
            data = self._user_data()
            return (
                f"{at} allocates and deploys {one.called}: {self._options.image or 'its default image'}",
                "the disk of its system is written anew",
                *((f"cloud-init gets {self._options.user_data} ({len(data)} bytes)",) if data else ()),
                *((f"tags: {' '.join(self._options.tags)}",) if self._options.tags else ()))
        return (f"{at} {_DOES[step.operation].format(one.called)}",)

    def install(self, node: Node) -> None:
        """Asks for what leads on, once; nothing where the machine is on its way or there. Raises OsError."""
        deadline = HttpDeadline(self._options.seconds)
        trouble: MaasError | None = None
        tries, last = 0, False
        for _ in range(_ROUNDS):
            one = self._machine(node)
            if one is None:
                raise OsError(f"MAAS has no machine with {sought(node)}; {_ENLIST}")
            step = next_step(one, self._options, self._account(), node.name)
            if step.refused:
                raise OsError(step.refused)
            if step.operation is MaasOperation.NOTHING:
                return
            if trouble is not None and last:
                raise trouble
            try:
                self._ask(step.operation, one, node)
                if step.operation is not MaasOperation.ALLOCATE:
                    return
            except MaasError as error:
                # Someone was faster, or it may have been done: what MAAS says next decides.
                if error.status != 409 and not error.unsure and not error.passing:
                    raise
                trouble, tries = error, tries + 1
                last = not self._client.waits(error, tries - 1, deadline) if error.passing else tries > 1
        raise trouble or OsError(f"MAAS takes {node.name} no further")

    def release(self, node: Node, typed: str = "") -> bool:
        """Has MAAS release the machine, which ends what runs there; whether that was asked for. What muster
        did not deploy with this account as this node goes only where its name was `typed`. OsError."""
        one = self._machine(node)
        if one is None:
            raise OsError(f"MAAS has no machine with {sought(node)}")
        if not may_release(one, self._account(), node.name, typed):
            return False
        self._ask(MaasOperation.RELEASE, one, node)
        return True

    def tags(self, node: Node) -> tuple[str, ...]:
        """The tags of the node's machine. Raises OsError."""
        one = self._machine(node)
        if one is None:
            raise OsError(f"MAAS has no machine with {sought(node)}")
        return one.tags

    def found(self, node: Node) -> MaasMachine | None:
        """The node's machine, None where MAAS has none. Raises OsError."""
        return self._machine(node)

    def results(self, system_id: str, names: Sequence[str]) -> object:
        """The outputs of these commissioning scripts, as MAAS answers them. Raises OsError."""
        query = (("type", "commissioning"), ("include_output", "true"), ("filters", ",".join(names)))
        return self._client.get(f"nodes/{system_id}/results/", query)

    def _ask(self, operation: MaasOperation, one: MaasMachine, node: Node) -> None:
        options, comment = self._options, f"muster: {node.name}"
        path = f"machines/{one.system_id}/"
        if operation is MaasOperation.ALLOCATE:
            fields = {"system_id": one.system_id, "comment": comment, "agent_name": "muster"}
            self._client.post("machines/", "allocate", fields)
            return
        fields = {"comment": comment}
        if operation is MaasOperation.COMMISSION:
            fields = _given(commissioning_scripts=",".join(options.commissioning_scripts),
                            testing_scripts=",".join(options.testing_scripts))
        elif operation is MaasOperation.TEST:
            fields = _given(testing_scripts=",".join(options.testing_scripts))
        elif operation is MaasOperation.DEPLOY:
            user_data = self._user_data()
            if one.mark != node.name:
                self._client.post(path, "set_workload_annotations", {MARK: node.name})
            for tag in options.tags:
                if tag not in one.tags:
                    self._client.post(f"tags/{tag}/", "update_nodes", {"add": one.system_id})
            fields |= _given(distro_series=options.image, hwe_kernel=options.hwe_kernel,
                             user_data=base64.b64encode(user_data).decode())
        self._client.post(path, operation.value, fields)

    def _machine(self, node: Node) -> MaasMachine | None:
        """The node's machine as it is now, and as long as it is the node's."""
        with self._lock:
            known = self._ids.get(node.name)
        if known is not None:
            try:
                one = machine(self._client.get(f"machines/{known}/"))
            except MaasError as error:
                if error.status != 404:
                    raise
            else:
                if one.system_id != known:
                    raise OsError(f"MAAS was asked for {known} and answered {one.called}")
                if not contradiction(node, one):
                    return one
            with self._lock:
                self._ids.pop(node.name, None)
        listed, addresses = self._list()
        match = find(node, listed, addresses)
        if match is None:
            return None
        one = machine(self._client.get(f"machines/{match.machine.system_id}/"))
        if one.system_id != match.machine.system_id or (trouble := contradiction(node, one)):
            raise OsError(f"{node.name} was {match.machine.called} by its {match.by}, and MAAS now says "
                          f"otherwise: {trouble if one.system_id == match.machine.system_id else one.called}")
        with self._lock:
            self._ids[node.name] = one.system_id
        return one

    def _list(self) -> tuple[tuple[MaasMachine, ...], Mapping[str, str]]:
        """All machines and their controllers' addresses; those who wait for a list get one list."""
        with self._listing:
            now = self._clock()
            if self._listed_at is None or now - self._listed_at > _LIST_S:
                listed = machines(self._client.get("machines/"))
                self._listed, self._listed_at = (listed, self._addresses()), self._clock()
            return self._listed

    def _addresses(self) -> Mapping[str, str]:
        try:
            return power_addresses(self._client.get("machines/", (("op", "power_parameters"),)))
        except MaasError as error:
            # Only administrators may: then other things have to say which machine it is.
            if error.status != 403:
                raise
            return {}

    def _account(self) -> str:
        """The account of the key."""
        with self._lock:
            if not self._user:
                found = self._client.get("users/", (("op", "whoami"),))
                name = found.get("username") if isinstance(found, dict) else None
                if not isinstance(name, str) or not name:
                    raise OsError(f"{self._client.where}: does not say whose API key it is; is this MAAS?")
                self._user = clean(name, 100)
            return self._user

    def _user_data(self) -> bytes:
        path = self._options.user_data
        if path is None:
            return b""
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_USER_DATA + 1)
        except OSError as problem:
            raise OsError(f"maas: user_data {clean(path)} cannot be read: {problem.strerror}") from None
        if len(data) > _MOST_USER_DATA:
            raise OsError(f"maas: user_data {clean(path)} is over {_MOST_USER_DATA // 1024} KiB")
        return data


_ENLIST = ("boot it from MAAS's network once, so that MAAS enlists it, or add it there (maas PROFILE "
           "machines create)")
_DOES = {
    MaasOperation.COMMISSION: "commissions {}: boots it, reads its hardware and tests it; deploying it is "
                              "asked for after that",
    MaasOperation.TEST: "tests {}; deploying it is asked for after that",
    MaasOperation.RELEASE: "releases {}, whose deployment failed; deploying it is asked for after that"}


def _given(**fields: str) -> dict[str, str]:
    """The parameters that are said."""
    return {name: value for name, value in fields.items() if value}
