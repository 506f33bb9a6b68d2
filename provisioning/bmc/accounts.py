"""Gives controllers passwords of their own, and an operator's account, so that a kill at any point costs
nothing: a new password is kept before the controller is changed, and the old one until the new one was
seen to work.

The order for one account: the new password is kept under NEXT, and read back; the controller is changed;
someone logs in with it; it is kept under its own name; NEXT is forgotten. Whoever comes after a kill tries
what is kept: the account's own, then NEXT, then the one that machines are delivered with. That is three
logins at most, for accounts lock.

An operator's role is the least that works: Redfish's ReadOnly has Login and ConfigureSelf, and a reset wants
ConfigureComponents (DMTF DSP0266, roles and privileges; DSP8011, ComputerSystem), which Operator has; IPMI's
USER may not turn a machine on or off (IPMI 2.0, appendix G).
"""

from __future__ import annotations

import fcntl
import hmac
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from healthcheck.config.files import make_folder
from inventory.model import Node, Secret
from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import Hidden, secret
from provisioning.bmc.passwords import (
    NEXT,
    OPERATOR,
    USUAL,
    PasswordRules,
    PasswordStore,
    random_password,
    store_of,
)

FOLDER = "bmc-accounts"


@dataclass(frozen=True)
class DesiredAccounts:
    """What is wanted of controllers' accounts. `random`: each has a password that no other has, kept in
    `folder` or by the program `keyring`. `first` is where the password is that machines are delivered with;
    `operator` the name of an account that may do no more than muster has to."""

    random: bool = False
    length: int = USUAL
    folder: Path | None = None
    keyring: tuple[str, ...] | None = None
    first: Secret | None = None
    operator: str | None = None

    @property
    def wanted(self) -> bool:
        """Whether anything is."""
        return self.random or self.operator is not None


class AccountLogin(Protocol):
    """One account, logged in to as late as can be. Each method raises BmcError."""

    def enter(self) -> bool:
        """Logs in; whether the account has to set a new password before it may do anything."""

    def rules(self) -> PasswordRules: ...

    def change(self, password: Hidden) -> None:
        """Sets the account's own password."""

    def make_operator(self, user: str, password: Hidden) -> None:
        """Makes an operator's account of this name, anew or of one that is there, with this password."""

    def close(self) -> None:
        """Logs out; never raises."""


Open = Callable[[Node, str, Hidden], AccountLogin]


@dataclass(frozen=True)
class Accounts:
    """`state` is the state folder; `opened` logs in to a node's controller as a user."""

    desired: DesiredAccounts
    state: Path
    opened: Open

    def lacking(self, node: Node) -> str:
        """What is to be done by what is kept, "" for nothing. Raises BmcError where it cannot be kept."""
        store, entry = self._store(node)
        what = []
        if self.desired.random and store.get(entry) is None:
            what.append("a password of its own")
        elif self.desired.random and _waiting(store, entry) is not None:
            what.append("a new password, of which it is not known whether it counts")
        if self._operator(node) and (store.get(node.name + OPERATOR) is None
                                     or _waiting(store, node.name + OPERATOR) is not None):
            what.append(f"an operator's account {self.desired.operator}")
        return " and ".join(what)

    def plan(self, node: Node) -> str:
        """What `settle` would do, by what is kept and one login with it; "" for nothing. Raises BmcError."""
        lacking = self.lacking(node)
        store, entry = self._store(node)
        own = store.get(entry)
        if lacking or own is None:
            return lacking
        with self._login(node, own) as (_, first):
            return "a new password, which it asks for" if first else ""

    def settle(self, node: Node, *, renew: bool = False) -> str:
        """Makes it so; gives what was done, "" for nothing. With `renew` a working password is replaced, too.
        Raises BmcError; `done` is None where it may have changed: the next call finds out."""
        with self._alone(node):
            store, entry = self._store(node)
            done = []
            if self.desired.random and (what := self._password(node, store, entry, renew=renew)):
                done.append(what)
            if self._operator(node) and (what := self._account(node, store, entry, renew=renew)):
                done.append(what)
            return "; ".join(done)

    def _password(self, node: Node, store: PasswordStore, entry: str, *, renew: bool) -> str:
        own, waiting = store.get(entry), _waiting(store, entry)
        first = self._first(node, needed=own is None and waiting is None)
        known = {"own": own, "new": waiting, "first": first}
        with self._entered(node, known) as (login, which, must_change):
            if which == "new" and not must_change and waiting is not None:
                _count(store, entry, waiting)
                return "its new password counts"
            if which == "own" and waiting is None and not must_change and not renew:
                store.forget(entry + NEXT)
                return ""
            if which == "first":
                self._operator_again(node, store, login)
            new = self._taken(store, entry, login, login.change, waiting if which != "new" else None)
            self._proved(node, _user(node), new)
            _count(store, entry, new)
            return "it has a password of its own"

    def _operator_again(self, node: Node, store: PasswordStore, login: AccountLogin) -> None:
        """A controller that is as it was delivered, for it was exchanged or reset, has lost the operator's
        account: a new password waits for it from now on, also for whoever comes after a kill."""
        name = node.name + OPERATOR
        if self._operator(node) and store.get(name) is not None and _waiting(store, name) is None:
            _keep(store, name + NEXT, random_password(self.desired.length, login.rules()))

    def _taken(
        self, store: PasswordStore, entry: str, login: AccountLogin, change: Callable[[Hidden], None],
        waiting: Hidden | None,
    ) -> Hidden:
        """The password that the controller took: the one that waits, which may count yet; where it does not
        like that one, or none waits, a new one."""
        if waiting is not None:
            try:
                return _set(store, entry, change, waiting)
            except BmcError as problem:
                if not _disliked(problem):
                    raise
        return _set(store, entry, change, random_password(self.desired.length, login.rules()))

    def _account(self, node: Node, store: PasswordStore, entry: str, *, renew: bool) -> str:
        name, user = node.name + OPERATOR, self.desired.operator or ""
        held, waiting = store.get(name), _waiting(store, name)
        if held is not None and waiting is None and not renew:
            store.forget(name + NEXT)
            return ""
        own = store.get(entry) or self._first(node, needed=True)
        if own is None:
            raise BmcError(BmcErrorReason.NO_SECRET, f"no password is kept for {node.name}")
        with self._login(node, own) as (login, _):
            new = self._taken(store, name, login, lambda one: login.make_operator(user, one), waiting)
        self._proved(node, user, new)
        _count(store, name, new)
        return f"it has an operator's account {user}"

    def _proved(self, node: Node, user: str, password: Hidden) -> None:
        """Logs in with what was set. Raises BmcError, for the controller said that it was."""
        login = self.opened(node, user, password)
        try:
            again = login.enter()
        except BmcError as problem:
            raise BmcError(problem.wrong, "a new password was accepted, and a login with it did not come to "
                           f"be: {problem.message}", None) from None
        finally:
            login.close()
        if again:
            raise BmcError(
                BmcErrorReason.PASSWORD, "a new password was accepted, and it asks for another", None)

    @contextmanager
    def _entered(
        self, node: Node, known: dict[str, Hidden | None],
    ) -> Iterator[tuple[AccountLogin, str, bool]]:
        """A login with the first of these that is taken. Raises BmcError(CREDENTIALS) where none is."""
        tried: list[str] = []
        for which, password in known.items():
            if password is None or any(_same(password, known[one]) for one in tried):
                continue
            login = self.opened(node, _user(node), password)
            try:
                try:
                    must_change = login.enter()
                except BmcError as problem:
                    if problem.wrong is not BmcErrorReason.CREDENTIALS:
                        raise
                    tried.append(which)
                    continue
                yield login, which, must_change
                return
            finally:
                login.close()
        if not tried:
            raise BmcError(
                BmcErrorReason.NO_SECRET, f"no password is kept for {node.name}, and the policy does not say "
                "which it was delivered with; say in bringup.yaml accounts: {first: ...}")
        words = {"own": "its own", "new": "the new one", "first": "the one it was delivered with"}
        lacking = "" if known["own"] is not None else ", and none of its own is kept"
        raise BmcError(BmcErrorReason.CREDENTIALS, "it refuses each password that is known: "
                       f"{', '.join(words[one] for one in tried)}{lacking}; not tried again by itself")

    @contextmanager
    def _login(self, node: Node, password: Hidden) -> Iterator[tuple[AccountLogin, bool]]:
        login = self.opened(node, _user(node), password)
        try:
            yield login, login.enter()
        finally:
            login.close()

    def _first(self, node: Node, *, needed: bool) -> Hidden | None:
        """The password that machines are delivered with, where the policy says where it is. One that cannot
        be read is an error only where it is `needed`: a site may take it away once each has its own."""
        try:
            return secret(self.desired.first, node.name) if self.desired.first is not None else None
        except BmcError:
            if needed:
                raise
            return None

    def _store(self, node: Node) -> tuple[PasswordStore, str]:
        return store_of(node, self.desired.folder, self.desired.keyring)

    def _operator(self, node: Node) -> bool:
        """Whether an account of the operator's is wanted beside the one that the inventory names."""
        return self.desired.operator is not None and self.desired.operator != _user(node)

    @contextmanager
    def _alone(self, node: Node) -> Iterator[None]:
        """One process at a time for one controller. Raises BmcError(BUSY), or NO_SECRET where unsure."""
        folder = self.state / FOLDER
        make_folder(folder, "locks of accounts")
        path = folder / f"{node.name}.lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise BmcError(BmcErrorReason.NO_SECRET, f"{clean(path)} cannot be opened: {problem.strerror}; "
                           "nothing was changed") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BmcError(BmcErrorReason.BUSY, "another process sets its accounts") from None
            yield
        finally:
            os.close(descriptor)


def _user(node: Node) -> str:
    if node.bmc is None or node.bmc.user is None:
        raise BmcError(BmcErrorReason.NO_SECRET, "the inventory names no user for the controller of "
                       f"{node.name}; add bmc: {{user: NAME}}")
    return node.bmc.user


def _same(one: Hidden | None, other: Hidden | None) -> bool:
    return (one is not None and other is not None
            and hmac.compare_digest(one.text.encode(), other.text.encode()))


def _waiting(store: PasswordStore, entry: str) -> Hidden | None:
    """A new password of which it is not known whether it counts."""
    waiting = store.get(entry + NEXT)
    return None if _same(waiting, store.get(entry)) else waiting


def _keep(store: PasswordStore, entry: str, password: Hidden) -> None:
    """Keeps a password, and reads it back as every other command will. Raises BmcError(NO_SECRET)."""
    store.put(entry, password)
    if not _same(store.get(entry), password):
        raise BmcError(BmcErrorReason.NO_SECRET, "a new password was kept, and what is read back is another; "
                       "nothing was changed")


def _set(
    store: PasswordStore, entry: str, change: Callable[[Hidden], None], password: Hidden,
) -> Hidden:
    """Keeps a password as the next one, and has the controller changed to it. Raises BmcError."""
    _keep(store, entry + NEXT, password)
    try:
        change(password)
    except BmcError as problem:
        if _disliked(problem):
            store.forget(entry + NEXT)      # the controller has the old one
        raise
    return password


def _disliked(problem: BmcError) -> bool:
    """Whether a controller understood, and surely has not taken a password."""
    return problem.done is False and problem.wrong is BmcErrorReason.REFUSED


def _count(store: PasswordStore, entry: str, password: Hidden) -> None:
    _keep(store, entry, password)
    store.forget(entry + NEXT)
