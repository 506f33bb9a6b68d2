"""An IPMI controller's accounts, through ipmitool: passwords go through a pipe, as a script's line (`exec`),
never as a word of the command. Source: IPMI 2.0, 22.26 to 22.31 (user access, name, password) and table 6-1
(privilege levels); ipmitool 1.8.19, lib/ipmi_user.c and lib/ipmi_exec.c."""

from __future__ import annotations

import re

from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import Hidden
from provisioning.bmc.ipmi.controller import IpmiController
from provisioning.bmc.ipmi.tool import MOST_USER
from provisioning.bmc.passwords import PasswordRules

_ROW = re.compile(r"([0-9]{1,2})\s+(?:(\S.*?)\s+)?(?:true|false)\s+(?:true|false)\s+(?:true|false)\s+\S")
_MOST = 16                      # bytes
_CHANNEL = "14"                 # the one that is spoken on
_OPERATOR = "3"
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")


class IpmiAccounts:
    """The account that the controller is logged in to as. See `provisioning.bmc.accounts.AccountLogin`."""

    def __init__(self, controller: IpmiController, user: str) -> None:
        self._controller = controller
        self._user = user

    def enter(self) -> bool:
        """Logs in; IPMI knows no password that has to be changed."""
        self._controller.power()
        return False

    def rules(self) -> PasswordRules:
        """IPMI 2.0 has room for 20 bytes; controllers are about that keep the 16 of IPMI 1.5 alone, and then
        take no login with more (OpenIPMI's does)."""
        return PasswordRules(0, _MOST)

    def change(self, password: Hidden) -> None:
        """See AccountLogin."""
        number = next((number for number, name in self._users().items() if name == self._user), None)
        if number is None:
            raise BmcError(BmcErrorReason.UNSUPPORTED, "it does not show the account that we log in with")
        self._set_password(number, password)

    def make_operator(self, user: str, password: Hidden) -> None:
        """See AccountLogin."""
        if _PLAIN.fullmatch(user) is None or len(user) > MOST_USER:
            raise BmcError(BmcErrorReason.REFUSED,
                           f"IPMI takes names of 1 to {MOST_USER} letters, digits and ._-", False)
        there = self._users()
        number = next((number for number, name in there.items() if name == user), None)
        if number is None:
            number = next((number for number, name in there.items() if number > 1 and not name), None)
            if number is None:
                raise BmcError(BmcErrorReason.REFUSED, "it has no room for one more account", False)
            self._controller.administer(("user", "set", "name", str(number), user))
        self._set_password(number, password)
        self._controller.administer(("channel", "setaccess", _CHANNEL, str(number), "callin=off", "ipmi=on",
                                     "link=on", f"privilege={_OPERATOR}"))
        self._controller.administer(("user", "enable", str(number)))

    def close(self) -> None:
        """Forgets the password."""
        self._controller.close()

    def _users(self) -> dict[int, str]:
        return users(self._controller.administer(("user", "list", _CHANNEL)))

    def _set_password(self, number: int, password: Hidden) -> None:
        if _PLAIN.fullmatch(password.text) is None or len(password.text) > _MOST:
            raise BmcError(BmcErrorReason.REFUSED, "IPMI takes no such password", False)
        self._controller.administer((), Hidden(f"user set password {number} {password.text} {_MOST}\n"))


def users(text: str) -> dict[int, str]:
    """Names by number, empty for a free one, out of `user list`; what is no row of it is passed over."""
    found = (_ROW.match(line) for line in text.splitlines())
    return {int(row[1]): (row[2] or "").strip() for row in found if row is not None}
