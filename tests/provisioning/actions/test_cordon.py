"""Cordons through a file of hosts: whatever the order, others' lines stay and the books are right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from healthcheck.store.cordons import CordonState, open_cordons
from healthcheck.store.file import opened
from healthcheck.store.ledger import lines
from healthcheck.store.marks import CordonMark, mark_of
from provisioning.actions.base import ActionError, Holder, number_of, reason_with_mark
from provisioning.actions.cordon import cordon, uncordon
from provisioning.actions.hostfile import HostFile
from tests.testbed.death import Death, Mortal
from tests.testbed.marks import muster, plain
from tests.testbed.memory import in_memory
from tests.tries import tries

NODES = ("gpu001", "gpu002", "gpu003")


@settings(max_examples=tries(300), deadline=None)
@given(store=st.just("") | st.from_regex(r"[0-9a-f]{4}", fullmatch=True), number=st.integers(1, 10**11),
       why=st.text(max_size=400))
def test_a_mark_is_found_again_whatever_the_reason_is(store: str, number: int, why: str) -> None:
    reason = reason_with_mark(CordonMark(store, number), why)
    assert mark_of(reason) == CordonMark(
        store, number) and len(reason) <= 200 and len(reason.splitlines()) == 1 and "\x1b" not in reason


@pytest.mark.parametrize("reason",
                         ["", "muster", "muster#0: x", "muster#12", "muster#x: y", "a muster#12: x",
                          "Muster#12: x", "muster#012: x"])
def test_what_is_no_mark_is_none(reason: str) -> None:
    assert number_of(reason) is None


def test_a_line_of_several_nodes_is_a_persons_and_stays_whole(tmp_path: Path) -> None:
    file = HostFile(tmp_path / "bad")
    file.path.write_text("# by hand\n\ngpu[001-002]  # muster#3: no, mine\ngpu003 # muster#4: ours\n")
    held = file.held(("gpu001", "gpu003", "gpu004"))
    assert [
        held[node].holder for node in ("gpu001", "gpu003", "gpu004")] == [Holder.US, Holder.US, Holder.NO_ONE]
    file.release("gpu001")
    assert (file.path.read_text()
            == "# by hand\n\ngpu[001-002]  # muster#3: no, mine\ngpu003 # muster#4: ours\n")
    file.release("gpu003")
    assert file.path.read_text() == "# by hand\n\ngpu[001-002]  # muster#3: no, mine\n"


def test_what_others_wrote_stays_to_the_byte_and_so_do_its_mode_and_the_link_to_it(tmp_path: Path) -> None:
    theirs = b"gpu001  # fan\x0c\xff\r\n\n# \xc2\x85 gpu002\n"
    (tmp_path / "real").write_bytes(theirs)
    (tmp_path / "real").chmod(0o664)
    (tmp_path / "bad").symlink_to("real")
    file = HostFile(tmp_path / "bad")
    file.isolate("gpu003", "muster#1: x")
    assert (tmp_path / "real").read_bytes() == theirs + b"gpu003  # muster#1: x\n"
    file.release("gpu003")
    assert (tmp_path / "real").read_bytes() == theirs and (
        tmp_path / "bad").is_symlink() and (tmp_path / "real").stat().st_mode & 0o777 == 0o664


def test_a_file_that_cannot_be_read_or_understood_is_reported_and_left(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("gpu[001\n")
    with pytest.raises(ActionError, match="bad:1: "):
        HostFile(tmp_path / "bad").held(("gpu001",))
    with pytest.raises(ActionError, match="cannot be written"):
        HostFile(tmp_path / "none" / "bad").isolate("gpu001", "muster#1: x")


def test_the_command_keeps_a_file_of_hosts(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("gpu009  # fan, Tuesday\n")
    done = muster("cordon", "gpu[008-009]", "--reason", "slow link", "--hostfile", "bad", home=tmp_path)
    assert (done.returncode, done.stdout) == (
        0, "gpu008: cordoned in hostfile as muster#1\ngpu009: left alone, others hold it: fan, Tuesday\n")
    assert plain((tmp_path / "bad").read_text()) == "gpu009  # fan, Tuesday\ngpu008  # muster#1: slow link\n"
    done = muster("uncordon", "gpu[008-009]", "--hostfile", "bad", home=tmp_path)
    assert (done.returncode, done.stdout) == (
        1, "gpu009: there is no cordon of ours; others hold it: fan, Tuesday\ngpu008: muster#1 is released\n")
    assert (tmp_path / "bad").read_text() == "gpu009  # fan, Tuesday\n"


def test_a_reason_that_is_no_utf_8_is_kept_as_escapes(tmp_path: Path) -> None:
    assert (muster("cordon", "gpu008", "--reason", "\udcff\x1b[31m\nx", "--hostfile", "bad", home=tmp_path,
                   SUDO_USER="\udcfe").returncode == 0)
    assert plain((tmp_path / "bad").read_text()) == "gpu008  # muster#1: \\xff\\x1b[31m\\nx\n"
    assert "\\xfe as " in muster("cordon", home=tmp_path).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [(("cordon", "gpu001"),
      "muster: --reason is missing: it is shown on the drained node\n"),
     (("cordon", "--reason", "x"),
      "muster: --reason goes with NODES: muster cordon gpu007 --reason 'fan 3 is loud'\n"),
     (("cordon", "gpu001", "--reason", " "),
      "muster: --reason is missing: it is shown on the drained node\n")])
def test_what_is_missing_is_reported_before_anything_is_done(
    tmp_path: Path, words: tuple[str, ...], said: str,
) -> None:
    done = muster(*words, "--hostfile", "bad", home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said) and not (tmp_path / "bad").exists()


class Hands(Mortal, RuleBasedStateMachine):
    """Cordons and releases, some cut short, among people who edit the same file."""

    @initialize()
    def begin(self) -> None:
        self.folder = in_memory()
        self.file = HostFile(Path(self.folder.name) / "bad")
        self.theirs: list[str] = []

    def acting(self, lives: int, action: Callable[..., object], *words: object) -> None:
        with opened(Path(self.folder.name), make=True) as store, suppress(Death):
            action(store, self.file, *words, self.clock(lives))

    # How many times the clock is read before the death: before and between the operations.
    LIVES = st.integers(1, 9) | st.just(1000)

    @rule(nodes=st.lists(st.sampled_from(NODES), min_size=1, unique=True), lives=LIVES)
    def we_cordon(self, nodes: list[str], lives: int) -> None:
        self.acting(lives, cordon, nodes, "why", "us")

    @rule(nodes=st.lists(st.sampled_from(NODES), min_size=1, unique=True), lives=LIVES)
    def we_release(self, nodes: list[str], lives: int) -> None:
        self.acting(lives, uncordon, nodes, "why", "us")

    @rule(node=st.sampled_from(NODES),
          words=st.sampled_from(["", "  # fan", "  # muster: mine", "  #muster#0: x"]))
    def a_person_adds_a_line(self, node: str, words: str) -> None:
        self.theirs.append(f"{node}{words}")
        text = self.file.path.read_text() if self.file.path.exists() else ""
        self.file.path.write_text(f"{text}{node}{words}\n")

    @rule(node=st.sampled_from(NODES))
    def a_person_takes_out_every_line_of_a_node(self, node: str) -> None:
        self.theirs = [line for line in self.theirs if not line.startswith(node)]
        if self.file.path.exists():
            kept = [line for line in self.file.path.read_text().splitlines() if not line.startswith(node)]
            self.file.path.write_text("".join(f"{line}\n" for line in kept))

    @invariant()
    def what_others_wrote_is_as_they_wrote_it(self) -> None:
        if hasattr(self, "file") and self.file.path.exists():
            written = self.file.path.read_text().splitlines()
            assert [
                line for line in written if number_of(line.partition("#")[2].strip()) is None] == self.theirs

    @invariant()
    def every_mark_in_the_file_is_of_a_cordon_that_is_open_and_stands_once(self) -> None:
        if hasattr(self, "file") and self.file.path.exists():
            marks = [(line.split()[0], number) for line in self.file.path.read_text().splitlines()
                     if (number := number_of(line.partition("#")[2].strip())) is not None]
            assert len(marks) == len({node for node, _ in marks})
            with opened(Path(self.folder.name), make=True) as store:
                known = {(one.node, one.id) for one in open_cordons(store)}
                assert set(marks) <= known

    @rule()
    def the_books_are_right_after_a_run_that_lives(self) -> None:
        self.acting(1000, uncordon, list(NODES), "to look", "us")
        with opened(Path(self.folder.name), make=True) as store:
            assert open_cordons(store) == []
            told = lines(store)
            assert all(line.outcome is not None for line in told)
            done = sum(line.outcome in ("cordoned", "cordoned; found so later") for line in told)
            assert done == len(store.rows("SELECT 1 FROM cordon WHERE state IN ('released', 'void') AND line "
                                          "IN (SELECT id FROM ledger WHERE outcome LIKE 'cordoned%')"))
        if self.file.path.exists():
            assert "muster:" not in self.file.path.read_text().replace("muster: mine", "")

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestHands = Hands.TestCase
TestHands.settings = settings(
    max_examples=tries(60), stateful_step_count=20, deadline=None,
    suppress_health_check=[HealthCheck.too_slow])


def test_a_state_has_a_word_that_the_store_keeps() -> None:
    assert {state.value for state in CordonState} == {"meant", "held", "released", "void", "anew"}
