"""A Redfish service's accounts: an account sets its own password, also the one that it is asked for at its
first login, and an administrator makes an operator's account.

Sources. DMTF DSP0266, accounts (PasswordChangeRequired: only the own account may be patched then) and
DSP2046, AccountService and ManagerAccount. Accounts are made by POST to the collection (Supermicro's Redfish
reference guide, HPE's with Oem.Hpe.LoginName, bmcweb), or by PATCH of an empty one where there are fixed
slots (Dell's iDRAC but slot 1: its scripting examples; Lenovo's XCC: python-redfish).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import Hidden
from provisioning.bmc.passwords import PasswordRules
from provisioning.bmc.redfish import vendors
from provisioning.bmc.redfish.answers import Document, check
from provisioning.bmc.redfish.match import patched
from provisioning.bmc.redfish.pending import PendingTasks
from provisioning.bmc.redfish.read import flag, inner, last, link, number, word
from provisioning.bmc.redfish.session import Session
from provisioning.bmc.redfish.task import followed
from provisioning.bmc.redfish.walk import CollectionMember, members

ROLE = "Operator"
# Where iDRAC takes a new password while it demands one (ChangeIdracUserPasswordREDFISH.py, force change).
_ROOT_OF_DELL = "/redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/DellAttributes/iDRAC.Embedded.1"


class RedfishAccounts:
    """The account that the session logs in as. See `provisioning.bmc.accounts.AccountLogin`."""

    def __init__(self, session: Session, user: str, tasks: PendingTasks) -> None:
        self._session = session
        self._user = user
        self._tasks = tasks

    def enter(self) -> bool:
        """Logs in, and reads something: some let in who must change the password, and say so then."""
        try:
            with self._session.call():
                self._session.enter()
                self._service()
        except BmcError as problem:
            if problem.wrong is not BmcErrorReason.PASSWORD:
                raise
            return True
        return False

    def rules(self) -> PasswordRules:
        """As the service says; an account that must change its password may not read them."""
        try:
            with self._session.call():
                service = self._service()
        except BmcError as problem:
            if problem.wrong is not BmcErrorReason.PASSWORD:
                raise
            return PasswordRules()
        least, most = number(service, "MinPasswordLength"), number(service, "MaxPasswordLength")
        return PasswordRules(least if isinstance(least, int) else 0, most if isinstance(most, int) else 0)

    def change(self, password: Hidden) -> None:
        """See AccountLogin."""
        with self._session.call():
            try:
                path = self._session.account_to_change or self._own()
                self._patch(path, {"Password": password.text}, "password", password)
            except BmcError as problem:
                if problem.wrong is not BmcErrorReason.PASSWORD or not self._is_root_of_dell():
                    raise
                self._patch(_ROOT_OF_DELL, {"Attributes": {"Users.2.Password": password.text}}, "password",
                            password)

    def make_operator(self, user: str, password: Hidden) -> None:
        """See AccountLogin."""
        with self._session.call():
            accounts = link(self._service(), "Accounts")
            if accounts is None:
                raise BmcError(BmcErrorReason.UNSUPPORTED, "it reports no accounts")
            found = list(self._members(accounts))
            account = {"Password": password.text, "RoleId": ROLE, "Enabled": True}
            there = next((one for one in found if inner(one.document, "UserName") == user), None)
            slot = there or _empty(found)
            if slot is not None:
                name = {} if there is not None else {"UserName": user}
                self._patch(slot.path, {**name, **account}, f"account {user}", password)
            else:
                self._post(accounts, {"UserName": user, **account}, user, password)
            self._is_operator(accounts, user)

    def close(self) -> None:
        """Logs out."""
        self._session.close()

    def _is_root_of_dell(self) -> bool:
        """Whether it is iDRAC's own account, always in slot 2: no other slot may be written unread."""
        return self._user == "root" and vendors.maker(self._session.root) is vendors.DELL

    def _service(self) -> Document:
        path = link(self._session.root, "AccountService")
        if path is None:
            raise BmcError(BmcErrorReason.UNSUPPORTED, "it has no account service")
        return self._session.get(path, fresh=True)

    def _members(self, accounts: str) -> Iterator[CollectionMember]:
        for one in members(self._session, accounts):
            if one.document is None:
                raise one.wrong or BmcError(BmcErrorReason.BROKEN, "one of its accounts cannot be read")
            yield one

    def _own(self) -> str:
        accounts = link(self._service(), "Accounts")
        found = next((one.path for one in members(self._session, accounts)
                      if inner(one.document, "UserName") == self._user), None) if accounts else None
        if found is None:
            raise BmcError(BmcErrorReason.UNSUPPORTED, "it does not show the account that we log in with")
        return found

    def _patch(self, path: str, body: Any, what: str, password: Hidden) -> None:
        self._session.hide(password)
        answer = patched(self._session, path, body, vendors.maker(self._session.root))
        check(answer, path, change=True)
        followed(self._session, answer, what, self._tasks)

    def _post(self, path: str, body: dict[str, Any], user: str, password: Hidden) -> None:
        self._session.hide(password)
        if vendors.maker(self._session.root) is vendors.HPE:
            body = {**body, "Oem": {"Hpe": {"LoginName": user}}}
        answer = self._session.change("POST", path, body)
        check(answer, path, change=True)
        followed(self._session, answer, f"account {user}", self._tasks)

    def _is_operator(self, accounts: str, user: str) -> None:
        """Raises BmcError where the account that was made is not what was asked for."""
        for one in self._members(accounts):
            if inner(one.document, "UserName") == user:
                if word(one.document, "RoleId") != ROLE or flag(one.document, "Enabled") is False:
                    raise BmcError(BmcErrorReason.REFUSED, f"it made an account {user} of another role than "
                                   f"{ROLE}, or did not enable it", None)
                return
        raise BmcError(BmcErrorReason.REFUSED, f"it accepted an account {user}, and does not show it", None)


def _empty(found: list[CollectionMember]) -> CollectionMember | None:
    """The first slot that no one has; the first of all is reserved where there are slots (iDRAC)."""
    free = [one for one in found if inner(one.document, "UserName") == "" and last(one.path) != "1"]
    return free[0] if free else None
