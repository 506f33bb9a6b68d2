"""Passwords of controllers: what is kept before what is changed, whatever is killed when; and no one sees
one."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import stat
import string
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.model import Bmc, Node, Secret, SecretFrom, Speaks
from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.accounts import Accounts, DesiredAccounts
from provisioning.bmc.base import BmcError, BmcErrorReason, PowerAction
from provisioning.bmc.connect import accounts_of
from provisioning.bmc.credentials import Hidden
from provisioning.bmc.ipmi.accounts import users
from provisioning.bmc.ipmi.controller import IpmiController
from provisioning.bmc.passwords import FolderStore, KeyringStore, PasswordRules, random_password, store_of
from provisioning.bmc.redfish.answers import change_required
from tests.testbed.ipmisim import PASSWORD, USER, IpmiSim, ipmi_sim, require_ipmi
from tests.testbed.planted import private
from tests.testbed.redfish.https import served
from tests.testbed.redfish.makers import DELIVERED, MAKERS
from tests.testbed.redfish.service import Said, Service

ROOT = "root"


# What a password is.

@given(length=st.integers(8, 20), least=st.integers(0, 20), most=st.sampled_from([0, 8, 12, 16, 20, 40]))
def test_a_password_is_as_the_controller_wants_it_or_there_is_none(length: int, least: int,
                                                                   most: int) -> None:
    try:
        text = random_password(length, PasswordRules(least, most)).text
    except BmcError as problem:
        assert problem.wrong is BmcErrorReason.REFUSED and most and least > most
        return
    assert 8 <= len(text) <= 20 and len(text) >= least and (not most or len(text) <= most)
    assert text[0] in string.ascii_letters and not set(text) & set("0O1lI \"'#\\$")
    for kind in (string.ascii_lowercase, string.ascii_uppercase, string.digits, "-_."):
        assert set(text) & set(kind)
    assert not any(one == other for one, other in pairwise(text))


def test_no_two_are_the_same() -> None:
    assert len({random_password(16, PasswordRules()).text for _ in range(500)}) == 500


def test_a_controller_that_wants_more_than_ipmi_has_room_for_is_left_as_it_is() -> None:
    with pytest.raises(BmcError, match="21 to 40 characters, and muster makes them of 8 to 20"):
        random_password(16, PasswordRules(21, 40))


# Where it is kept.

def node(where: Path, place: tuple[str, int, str] = ("127.0.0.1", 1, "pin"), *, name: str = "gpu001",
         words: tuple[str, ...] = ()) -> Node:
    secret = Secret(SecretFrom.COMMAND, words) if words else Secret(SecretFrom.FILE, (str(where / "{node}"),))
    return Node(name, bmc=Bmc(place[0], ROOT, place[1], secret=secret, tls=place[2]))


def test_a_file_is_whole_and_its_owners_alone(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "pw")
    store.put("gpu001", Hidden("abc"))
    path = tmp_path / "pw/gpu001"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_text() == "abc\n"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    found = store.get("gpu001")
    assert found is not None and found.text == "abc" and store.get("gpu002") is None
    store.forget("gpu001")
    assert list(path.parent.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_line_and_no_password(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("a file")
    with pytest.raises(BmcError, match="cannot be kept in") as caught:
        FolderStore(tmp_path / "pw").put("gpu001", Hidden("abc-secret"))
    assert caught.value.wrong is BmcErrorReason.NO_SECRET and "abc-secret" not in str(caught.value)


@pytest.mark.parametrize("secret", [
    None, Secret(SecretFrom.ENV, ("X",)), Secret(SecretFrom.FILE, ("/etc/shared",)),
    Secret(SecretFrom.COMMAND, ("pass", "show", "x")), Secret(SecretFrom.FILE, ("/pw/{node}/x",))])
def test_what_is_written_must_be_what_every_other_command_reads(secret: Secret | None) -> None:
    one = Node("gpu001", bmc=Bmc("127.0.0.1", ROOT, secret=secret))
    with pytest.raises(BmcError, match=r'say there: bmc: \{password: \{file: "/pw/\{node\}"\}\}'):
        store_of(one, Path("/pw"), None)
    with pytest.raises(BmcError, match=r"say there: bmc: \{password: \{command:"):
        store_of(one, None, ("keep", "{node}"))


KEEPER = """import sys, pathlib
folder, word, entry = sys.argv[1:]
path = pathlib.Path(folder) / entry
if word == "keep":
    path.write_text(sys.stdin.read())
else:
    print(path.read_text(), end="")
"""


@pytest.fixture
def keyring(tmp_path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A site's keyring: the words that keep, and those that read."""
    (tmp_path / "keyring").mkdir()
    program = tmp_path / "keeper.py"
    program.write_text(KEEPER)
    start = (sys.executable, "-IS", str(program), str(tmp_path / "keyring"))
    return (*start, "keep", "{node}"), (*start, "show", "{node}")


def test_a_keyring_is_given_it_over_standard_input(
    tmp_path: Path, keyring: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    keep, show = keyring
    store = KeyringStore(keep, Secret(SecretFrom.COMMAND, show))
    assert store.get("gpu001") is None
    store.put("gpu001", Hidden("abc"))
    found = store.get("gpu001")
    assert found is not None and found.text == "abc" and (tmp_path / "keyring/gpu001").read_text() == "abc\n"
    with pytest.raises(BmcError, match="exit code 3"):
        KeyringStore((sys.executable, "-c", "raise SystemExit(3)"), Secret(SecretFrom.COMMAND, show)).put(
            "x", Hidden("abc"))


# One controller.

class Bed:
    def __init__(self, folder: Path, service: Service, place: tuple[str, int, str]) -> None:
        self.folder, self.service, self.place = folder, service, place
        self.passwords = folder / "pw"
        self.first = private(folder / "delivered", DELIVERED + "\n")
        service.add(ROOT, DELIVERED)

    @property
    def node(self) -> Node:
        return node(self.passwords, self.place)

    def accounts(self, **desired: Any) -> Accounts:
        return accounts_of(DesiredAccounts(**{"random": True, "folder": self.passwords, "first": Secret(
            SecretFrom.FILE, (str(self.first),)), **desired}), self.folder, 10.0)

    def kept(self) -> dict[str, str]:
        return {path.name: path.read_text().strip() for path in self.passwords.iterdir()
                if not path.name.startswith(".")} if self.passwords.exists() else {}

    def again(self) -> None:
        """The controller and the store as they were delivered."""
        for path in self.passwords.iterdir() if self.passwords.exists() else ():
            path.unlink()
        self.service.accounts = {ROOT: type(next(iter(self.service.accounts.values())))(ROOT, DELIVERED)}
        self.service.tokens.clear()
        self.service.refused = 0


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    service = MAKERS["openbmc"]()
    with served(tmp_path, {"gpu001": service}) as places:
        yield Bed(tmp_path, service, places["gpu001"])


def test_the_controller_is_reported_only_what_is_kept(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    answer = bed.service.answer

    def watched(method: str, *rest: Any) -> Any:
        if method == "PATCH":
            told.append(bed.kept().get("gpu001.next", ""))
        return answer(method, *rest)

    monkeypatch.setattr(bed.service, "answer", watched)
    bed.accounts().settle(bed.node)
    assert told == [bed.service.password(ROOT)] and bed.kept() == {"gpu001": bed.service.password(ROOT)}


def test_where_it_cannot_be_kept_the_controller_is_not_told(bed: Bed) -> None:
    bed.passwords.write_text("a file")
    with pytest.raises(BmcError, match="cannot be kept"):
        bed.accounts().settle(bed.node)
    assert bed.service.password(ROOT) == DELIVERED


def test_a_keyring_that_gives_back_another_stops_before_the_controller_is_reported(
    bed: Bed, keyring: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    keep, _ = keyring
    liar = (sys.executable, "-c", "print('another')", "{node}")
    accounts = bed.accounts(folder=None, keyring=keep)
    with pytest.raises(BmcError, match="what is read back is another"):
        accounts.settle(node(bed.passwords, bed.place, words=liar))
    assert bed.service.password(ROOT) == DELIVERED


def test_what_the_controller_does_not_like_is_forgotten_and_the_old_one_stays(
    bed: Bed, monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed.service.ways = replace(bed.service.ways, least=30)      # and its service says nothing of it
    monkeypatch.setattr(bed.service, "_service", lambda: {
        "Accounts": {"@odata.id": bed.service.ways.accounts}})
    with pytest.raises(BmcError) as caught:
        bed.accounts().settle(bed.node)
    assert (caught.value.wrong, caught.value.done) == (BmcErrorReason.REFUSED, False)
    assert bed.service.password(ROOT) == DELIVERED and bed.kept() == {}


def picky(bed: Bed, monkeypatch: pytest.MonkeyPatch, refusals: int) -> list[str]:
    """Has the controller dislike so many passwords, as its own policy wants; gives all that it was told."""
    told: list[str] = []
    answer = bed.service.answer

    def watched(method: str, path: str, query: str, headers: Any, body: bytes) -> Any:
        given = json.loads(body) if method in ("PATCH", "POST") and body else {}
        if method == "PATCH" or "RoleId" in given:
            told.append(given.get("Password", ""))
            if len(told) <= refusals:
                return Said(400,
                            {"error": {"code": "Base.1.8.PropertyValueFormatError", "message": "too plain"}})
        return answer(method, path, query, headers, body)

    monkeypatch.setattr(bed.service, "answer", watched)
    return told


def test_a_keyring_that_forgets_nothing_does_not_keep_a_disliked_password_in_play(
    bed: Bed, keyring: tuple[tuple[str, ...], tuple[str, ...]], monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep, show = keyring
    one, accounts = node(bed.passwords, bed.place, words=show), bed.accounts(folder=None, keyring=keep)
    told = picky(bed, monkeypatch, 2)
    with pytest.raises(BmcError, match="refused"):
        accounts.settle(one)
    assert accounts.settle(one) == "it has a password of its own"
    assert len(set(told)) == 2 and told[-1] == bed.service.password(ROOT)


def test_an_operators_password_that_is_disliked_is_not_sent_for_ever(
    bed: Bed, monkeypatch: pytest.MonkeyPatch,
) -> None:
    accounts = bed.accounts()
    accounts.settle(bed.node)
    both = bed.accounts(operator="muster")
    told = picky(bed, monkeypatch, 1)
    with pytest.raises(BmcError, match="refused"):
        both.settle(bed.node)
    assert set(bed.kept()) == {"gpu001"}
    assert both.settle(bed.node) == "it has an operator's account muster"
    assert len(set(told)) == 2


def test_a_keyring_that_does_not_answer_is_not_one_that_has_none(
    bed: Bed, keyring: tuple[tuple[str, ...], tuple[str, ...]], monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep, _ = keyring
    accounts = bed.accounts(folder=None, keyring=keep)
    for words in (("/nowhere/keeper", "{node}"), ("sh", "-c", "kill -9 $$", "{node}")):
        one = node(bed.passwords, bed.place, words=words)
        for ask in (accounts.lacking, accounts.settle):
            with pytest.raises(BmcError) as caught:
                ask(one)
            assert caught.value.wrong is BmcErrorReason.NO_SECRET
    assert bed.service.password(ROOT) == DELIVERED and bed.service.refused == 0


def test_a_folder_that_cannot_be_looked_into_is_not_one_that_has_none(bed: Bed) -> None:
    bed.passwords.symlink_to(bed.passwords)
    with pytest.raises(BmcError, match="cannot be read: Too many levels"):
        bed.accounts().lacking(bed.node)


def test_a_lock_that_cannot_be_opened_is_one_line(bed: Bed) -> None:
    (bed.folder / "bmc-accounts/gpu001.lock").mkdir(parents=True)
    with pytest.raises(BmcError, match=r"gpu001\.lock cannot be opened: Is a directory; nothing was changed"):
        bed.accounts().settle(bed.node)


def test_a_controller_that_was_exchanged_gets_its_operators_account_too(bed: Bed) -> None:
    accounts = bed.accounts(operator="muster")
    accounts.settle(bed.node)
    bed.service.accounts = {ROOT: type(bed.service.accounts[ROOT])(ROOT, DELIVERED)}
    bed.service.tokens.clear()
    assert accounts.settle(bed.node) == "it has a password of its own; it has an operator's account muster"
    assert bed.kept() == {"gpu001": bed.service.password(ROOT),
                          "gpu001.operator": bed.service.password("muster")}


def test_lengths_that_the_service_names_are_kept_to(bed: Bed) -> None:
    bed.service.ways = replace(bed.service.ways, least=18, most=20)
    bed.accounts().settle(bed.node)
    assert len(bed.service.password(ROOT)) == 18


def test_one_that_works_is_renewed_only_when_asked_to(bed: Bed) -> None:
    accounts = bed.accounts()
    accounts.settle(bed.node)
    first = bed.service.password(ROOT)
    assert accounts.settle(bed.node) == "" and bed.service.password(ROOT) == first
    accounts.settle(bed.node, renew=True)
    assert bed.service.password(ROOT) == bed.kept()["gpu001"] != first


def test_where_nothing_that_is_known_is_taken_three_logins_are_all(bed: Bed) -> None:
    bed.service.accounts[ROOT].password = "some-0ther"
    FolderStore(bed.passwords).put("gpu001", Hidden("own-1"))
    FolderStore(bed.passwords).put("gpu001.next", Hidden("next-1"))
    with pytest.raises(BmcError, match="its own, the new one, the one it was delivered with") as caught:
        bed.accounts().settle(bed.node)
    assert caught.value.wrong is BmcErrorReason.CREDENTIALS and bed.service.refused == 3


def test_a_delivered_password_that_was_taken_away_is_missed_only_where_it_is_needed(bed: Bed) -> None:
    accounts = bed.accounts()
    accounts.settle(bed.node)
    bed.first.unlink()
    assert accounts.settle(bed.node) == "" and accounts.settle(bed.node, renew=True)
    bed.again()
    with pytest.raises(BmcError) as caught:
        accounts.settle(bed.node)
    assert caught.value.wrong is BmcErrorReason.NO_SECRET


def test_two_at_once_do_not_both_set_it(bed: Bed) -> None:
    accounts = bed.accounts()
    with accounts._alone(bed.node), pytest.raises(BmcError, match="another process"):
        bed.accounts().settle(bed.node)


# A kill at every point.

OURS = ("provisioning/bmc/accounts.py", "provisioning/bmc/passwords.py",
        "provisioning/bmc/redfish/accounts.py",
        "provisioning/bmc/redfish/match.py", "healthcheck/config/files.py")
MAKING = ("random_password", "<genexpr>")       # which takes as many lines as it happens to


def killed_at(point: int, act: Callable[[], object]) -> bool:
    """Whether a process that does this was killed at this line of those of OURS that it runs."""
    child = os.fork()
    if child == 0:
        left = [point]

        def trace(frame: FrameType, event: str, _: object) -> Any:
            if not frame.f_code.co_filename.endswith(OURS) or frame.f_code.co_name in MAKING:
                return None
            if event == "line":
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace
        try:
            sys.settrace(trace)
            act()
            sys.settrace(None)
        except BaseException:  # noqa: BLE001  (the child has no one to tell)
            sys.settrace(None)
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("step", [32, pytest.param(3, marks=pytest.mark.slow)])
def test_a_kill_at_any_point_loses_no_password_and_the_next_call_ends_it(bed: Bed, step: int) -> None:
    accounts, points = bed.accounts(operator="muster"), 0
    while True:
        bed.again()
        killed = killed_at(points, lambda: accounts.settle(bed.node))
        known = {DELIVERED, *bed.kept().values()}
        assert bed.service.password(ROOT) in known, points
        before = bed.service.refused
        accounts.settle(bed.node)
        assert bed.service.refused - before <= 2
        assert bed.kept() == {"gpu001": bed.service.password(ROOT),
                              "gpu001.operator": bed.service.password("muster")}, points
        if not killed:
            break
        points += step
    assert points > 150


@pytest.mark.parametrize("step", [26, pytest.param(5, marks=pytest.mark.slow)])
def test_a_kill_while_a_working_one_is_renewed_leaves_one_that_works(bed: Bed, step: int) -> None:
    accounts, points, old = bed.accounts(), 0, ""
    while True:
        bed.again()
        accounts.settle(bed.node)
        old = bed.service.password(ROOT)
        killed = killed_at(points, lambda: accounts.settle(bed.node, renew=True))
        assert bed.service.password(ROOT) in bed.kept().values(), points
        accounts.settle(bed.node)
        assert bed.kept() == {"gpu001": bed.service.password(ROOT)}, points
        if not killed:
            break
        points += step
    assert bed.service.password(ROOT) != old and points > 80


# In the fast tier before one request and after the next but one.
@pytest.mark.parametrize(("made", "at", "step"), [
    (False, 1, 4), (True, 3, 4),
    *(pytest.param(made, 1, 1, marks=pytest.mark.slow) for made in (False, True))])
def test_a_kill_while_the_controller_is_being_asked_loses_none_either(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, made: bool, at: int, step: int,
) -> None:
    """At each request, before the controller has done what is asked, and after it, of which it then tells no
    one."""
    accounts, answer = bed.accounts(operator="muster"), bed.service.answer
    left, child = [0], [0]

    def deadly(*words: Any) -> Any:
        left[0] -= 1
        dies = left[0] == 0 and child[0]
        if dies and not made:
            os.kill(child[0], signal.SIGKILL)
            raise ConnectionResetError
        said = answer(*words)
        if dies:
            os.kill(child[0], signal.SIGKILL)
        return said

    monkeypatch.setattr(bed.service, "answer", deadly)
    while True:
        bed.again()
        gate, opens = os.pipe()
        left[0], child[0] = at, 0
        child[0] = os.fork()
        if child[0] == 0:
            os.read(gate, 1)
            with contextlib.suppress(BmcError):
                accounts.settle(bed.node)
            os._exit(0)
        os.write(opens, b"x")
        _, status = os.waitpid(child[0], 0)
        child[0] = 0
        os.close(gate)
        os.close(opens)
        assert bed.service.password(ROOT) in {DELIVERED, *bed.kept().values()}, at
        accounts.settle(bed.node)
        assert bed.kept() == {"gpu001": bed.service.password(ROOT),
                              "gpu001.operator": bed.service.password("muster")}, at
        if not os.WIFSIGNALED(status):
            break
        at += step
    assert at > 20


# No one sees it.

def processes() -> bytes:
    """The words and the environment of every process."""
    found = b""
    for one in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                found += (one / name).read_bytes()
    return found


@contextlib.contextmanager
def watched() -> Iterator[list[bytes]]:
    """What `processes` shows all the while, as the one item."""
    seen, over = [b""], threading.Event()

    def watch() -> None:
        while not over.wait(0.01):      # each program that is started here runs for longer
            seen[0] += processes()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def test_no_password_is_printed_logged_kept_elsewhere_or_in_any_process(
    bed: Bed, keyring: tuple[tuple[str, ...], tuple[str, ...]], caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    keep, show = keyring
    with watched() as seen:
        one = node(bed.passwords, bed.place, words=show)
        accounts = bed.accounts(folder=None, keyring=keep, operator="muster")
        said = [accounts.plan(one), accounts.settle(one), accounts.settle(one, renew=True), repr(accounts)]
    secrets = {path.read_text().strip() for path in (bed.folder / "keyring").iterdir()} | {DELIVERED}
    assert len(secrets) >= 3
    written = "".join(said) + caplog.text + "".join(capfd.readouterr())
    for secret in secrets:
        assert secret not in written and secret.encode() not in seen[0]
        for path in bed.folder.rglob("*"):
            if path.is_file() and path.parent.name != "keyring" and path != bed.first:
                assert secret.encode() not in path.read_bytes(), path


# What services and ipmitool say.

_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.sampled_from([
        "error", "@Message.ExtendedInfo", "MessageId", "MessageArgs", "Message", "PasswordChangeRequired"]),
                                         inner,
        max_size=4), max_leaves=10)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)      # the machine may be busy
@given(status=st.sampled_from([200, 201, 401, 403, 404]), body=_JSON)
def test_whatever_a_service_says_of_a_change_of_password_is_read(status: int, body: Any) -> None:
    found = change_required(HttpAnswer(status, {}, json.dumps(body).encode()))
    assert found is None or found.account is None or found.account.startswith("/redfish")


@pytest.mark.parametrize(("status", "body", "required"), [
    (200, {"PasswordChangeRequired": False}, False), (200, {"PasswordChangeRequired": True}, False),
    (201, {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.PasswordChangeRequired"}]}, True),
    (201, {"Password@Message.ExtendedInfo": [{"MessageId": "Base.1.8.PasswordChangeRequired"}]}, True),
    (403, {"error": {"code": "Base.1.8.PasswordChangeRequired"}}, True),
    (404, {"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.PasswordChangeRequired"}]}}, False)])
def test_only_a_message_says_that_the_password_must_be_changed(status: int, body: Any,
                                                               required: bool) -> None:
    assert (change_required(HttpAnswer(status, {}, json.dumps(body).encode())) is not None) is required


@given(st.text(alphabet="0123456789 \t\ntruefals.OPERATORabc", max_size=200))
def test_a_list_of_users_is_read_whatever_stands_there(text: str) -> None:
    assert all(0 <= number < 100 and name == name.strip() for number, name in users(text).items())


def test_free_places_and_users_are_told_apart() -> None:
    assert users("ID  Name\t     Callin  Link Auth\tIPMI Msg   Channel Priv Limit\n"
                 "1                    true    false      false      USER\n"
                 "2   admin            true    false      true       ADMINISTRATOR\n"
                 "3   true             true    false      true       OPERATOR\n") == {1: "",
                                                                                      2: "admin", 3: "true"}


# IPMI.

@pytest.fixture
def sim(tmp_path: Path) -> Iterator[IpmiSim]:
    require_ipmi()
    with ipmi_sim(tmp_path / "sim") as found:
        yield found


def test_an_ipmi_controller_gets_them_too_and_no_process_list_has_one(sim: IpmiSim, tmp_path: Path) -> None:
    passwords, first = tmp_path / "pw", tmp_path / "first"
    private(first, PASSWORD)
    where = Secret(SecretFrom.FILE, (str(passwords / "{node}"),))
    one = Node("gpu001", bmc=Bmc(sim.address, USER, sim.port, Speaks.IPMI, where))
    accounts = accounts_of(DesiredAccounts(random=True, folder=passwords, operator="muster", first=Secret(
        SecretFrom.FILE, (str(first),))), tmp_path, 30.0)
    with watched() as seen:
        said = accounts.settle(one)
    assert said == "it has a password of its own; it has an operator's account muster"
    own, operator = ((passwords / name).read_text().strip() for name in ("gpu001", "gpu001.operator"))
    assert len(own) == len(operator) == 16
    assert (own.encode() not in seen[0] and operator.encode() not in seen[0]
            and PASSWORD.encode() not in seen[0])
    assert accounts.settle(one) == ""
    bare = Node("gpu001", bmc=Bmc(sim.address, port=sim.port, speaks=Speaks.IPMI))
    IpmiController(bare, lambda: ("muster", operator), 20.0).set_power(PowerAction.ON)
    with pytest.raises(BmcError) as caught:
        IpmiController(bare, lambda: (USER, PASSWORD), 20.0).power()
    assert caught.value.wrong is BmcErrorReason.CREDENTIALS
