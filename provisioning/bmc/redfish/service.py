"""What a service has: its systems, the controllers and chassis beside them, each found once for a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.redfish import vendors
from provisioning.bmc.redfish.answers import Document
from provisioning.bmc.redfish.read import last, link
from provisioning.bmc.redfish.session import Session
from provisioning.bmc.redfish.walk import CollectionMember, linked, members


class RedfishService:
    """A session, and what it leads to; read again for each call, but for where the machine is."""

    def __init__(self, session: Session, named: str | None = None) -> None:
        """`named` is the id of the machine's system, where the inventory has it."""
        self.session = session
        self.named = named
        self._system: str | None = None
        self._boards: tuple[str, ...] = ()
        self.maker = vendors.OTHER

    def system(self, *, fresh: bool = False) -> Document:
        """The machine itself. Raises BmcError."""
        return self.session.get(self.system_path, fresh=fresh)

    @property
    def system_path(self) -> str:
        """Where the machine is; found once."""
        if self._system is None:
            collection = link(self.session.root, "Systems")
            if collection is None:
                raise BmcError(BmcErrorReason.UNSUPPORTED, "it reports no systems")
            found = list(members(self.session, collection))
            read = [(one.path, one.document) for one in found if one.document is not None and one.path]
            hosts = vendors.hosts(read)
            chosen = self._chosen(hosts, next((one.wrong for one in found if one.wrong is not None
                                               and not vendors.is_board(one.path)), None))
            self.maker = vendors.maker(self.session.root, chosen[1])
            # Of several machines none is known to have the boards.
            self._boards = tuple(one.path for one in found
                                 if vendors.has_gpus(one.path)) if len(hosts) == 1 else ()
            self._system = chosen[0]
        return self._system

    def _chosen(
        self, hosts: Sequence[tuple[str, Document]], unread: BmcError | None,
    ) -> tuple[str, Document]:
        """The machine. Raises BmcError where none is said among several: a wrong one would be powered off."""
        known = f"it has {', '.join(clean(last(path), 40) for path, _ in hosts[:8]) or 'none'}"
        if self.named is not None:
            for one in hosts:
                if last(one[0]) == self.named:
                    return one
            raise unread or BmcError(BmcErrorReason.REFUSED, f"it has no system {self.named}; {known}")
        if unread is not None:      # it may be the machine
            raise unread
        if not hosts:
            raise BmcError(BmcErrorReason.UNSUPPORTED, "it has no system")
        if len(hosts) > 1:
            raise BmcError(BmcErrorReason.REFUSED, f"it is the controller of {len(hosts)} machines: {known}; "
                           f"say which one this node is in the inventory, bmc: {{system: "
                           f"{clean(last(hosts[0][0]), 40)}}}")
        return hosts[0]

    def systems(self) -> Iterator[CollectionMember]:
        """The machine, and then the boards in it that are systems of their own."""
        yield CollectionMember(self.system_path, self.system())
        for path in self._boards:
            yield self._one(path)

    def managers(self) -> Iterator[CollectionMember]:
        """The controllers, the machine's own first."""
        yield from self._of("Managers", "ManagedBy")

    def chassis(self) -> Iterator[CollectionMember]:
        """All chassis that it tells of: of boards, too."""
        yield from self._of("Chassis", "Chassis")

    def _of(self, name: str, named: str) -> Iterator[CollectionMember]:
        own = [one for one in linked(self.session, self.system(), "Links", named) if one.document is not None]
        yield from own
        collection = link(self.session.root, name)
        if collection is not None:
            paths = {one.path.rstrip("/") for one in own}
            yield from (one for one in members(self.session, collection) if one.path.rstrip("/") not in paths)

    def _one(self, path: str) -> CollectionMember:
        try:
            return CollectionMember(path, self.session.get(path))
        except BmcError as problem:
            return CollectionMember(path, None, problem)
