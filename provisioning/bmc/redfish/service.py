"""What a service has: its systems, the controllers and chassis beside them, each found once for a call."""

from __future__ import annotations

from collections.abc import Iterator

from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.redfish import vendors
from provisioning.bmc.redfish.answers import Document
from provisioning.bmc.redfish.read import link
from provisioning.bmc.redfish.session import Session
from provisioning.bmc.redfish.walk import CollectionMember, linked, members


class RedfishService:
    """A session, and what it leads to. All of it is read again for each call, but for where the machine
    is."""

    def __init__(self, session: Session) -> None:
        self.session = session
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
            chosen = vendors.host(read)
            if chosen is None:
                raise next((one.wrong for one in found if one.wrong is not None),
                           BmcError(BmcErrorReason.UNSUPPORTED, "it has no system"))
            self.maker = vendors.maker(self.session.root, chosen[1])
            self._boards = tuple(path for path, _ in vendors.boards(read, chosen[0]))
            self._system = chosen[0]
        return self._system

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
