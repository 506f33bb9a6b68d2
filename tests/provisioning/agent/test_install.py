"""Installing the agent: the program that nodes get, run for real on a root folder of its own."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from inventory.model import Node
from inventory.transport.base import Limits, Program, Reply
from inventory.transport.local import LocalTransport
from provisioning.agent import install, units
from provisioning.agent.bundle import Bundle, build
from provisioning.agent.install import AgentAction, AgentRequest, AgentResult, act
from provisioning.agent.layout import BASE, CURRENT, FILES, PREVIOUS, digest
from provisioning.agent.status import show, status
from tests.healthcheck.agent.world import python
from tests.testbed.heldanswer import at_its_answer, is_free
from tests.testbed.require import require

NODE = Node("gpu001", sku="hgx-h100", python=sys.executable)
ONNODE = Path(install.__file__).with_name("onnode")


@pytest.fixture(scope="module")
def real() -> Bundle:
    return build(load_ruleset([packaged()]))


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """One that starts, is large enough that sending it shows, and no more."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("__main__.py", "")
        archive.writestr("noise", random.Random(1).randbytes(100_000))
    return Bundle(made.getvalue(), b'{"digest": "1"}', "1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine that has cron and no systemd."""
    (tmp_path / "root/etc/cron.d").mkdir(parents=True)
    (tmp_path / "root/var/lib/prometheus/node-exporter").mkdir(parents=True)
    return tmp_path / "root"


class Counting(LocalTransport):
    """Keeps what crossed the channel, and may put a line before the program."""

    sent = 0

    def run(self, nodes, program, limits):  # type: ignore[no-untyped-def]
        for reply in super().run(nodes, program, limits):
            self.sent = reply.sent_bytes
            yield reply


def do(
    what: AgentAction, root: Path, bundle: Bundle | None = None, node: Node = NODE, transport: object = None,
    **more: object,
) -> AgentResult:
    desired = AgentRequest(what, root=str(root), **more)  # type: ignore[arg-type]
    (done,) = act([node], transport or LocalTransport(), desired, Limits(), bundle)  # type: ignore[arg-type]
    return done


def newer(bundle: Bundle, number: int = 2) -> Bundle:
    """The same code with other rules."""
    return dataclasses.replace(bundle, rules=json.dumps({"digest": str(number)}).encode())


def tree(root: Path) -> dict[str, str]:
    """Every path, with what it is."""
    def what(path: Path) -> str:
        return f"-> {path.readlink()}" if path.is_symlink() else path.read_bytes().hex()[
            :64] if path.is_file() else "folder"
    return {str(path.relative_to(root)): what(path) for path in sorted(root.rglob("*"))}


def in_use(root: Path) -> str:
    return (root / CURRENT[1:]).readlink().name


def is_whole(root: Path) -> bool:
    """Whether what is in use lies there whole, under the digest that is its name."""
    there = root / BASE[1:] / in_use(root)
    return digest({name: (there / name).read_bytes() for name in FILES})[:12] == there.name


def test_what_is_installed_lies_there_whole_by_its_digest_and_cron_starts_it_where_there_is_no_systemd(
    root: Path, real: Bundle,
) -> None:
    done = do(AgentAction.INSTALL, root, bundle := real)
    assert done.ok, done.message
    assert in_use(root) == bundle.of(NODE).folder
    assert is_whole(root)
    cron = (root / units.CRON[1:]).read_text()
    assert f"*/5 * * * * root sleep {units.delay('gpu001', 300)}; " in cron
    assert (f"{sys.executable} -I -S {CURRENT}/muster.pyz run --textfile /var/lib/prometheus/node-exporter "
            ">/dev/null" in cron)
    report = json.loads((root / BASE[1:] / "current/node.json").read_text())
    assert report["node"]["name"] == "gpu001"


def test_installing_what_is_there_changes_nothing_sends_little_and_says_so(
    root: Path, bundle: Bundle,
) -> None:
    transport = Counting()
    do(AgentAction.INSTALL, root, bundle, transport=transport)
    first, before = transport.sent, tree(root)
    done = do(AgentAction.INSTALL, root, bundle, transport=transport)
    assert done == dataclasses.replace(
        done, ok=True, message=f"nothing to do, {in_use(root)} is in use", changed=())
    assert tree(root) == before
    assert transport.sent < first / 5


def test_an_upgrade_sends_only_what_has_changed_and_keeps_the_version_before(
    root: Path, bundle: Bundle,
) -> None:
    transport = Counting()
    do(AgentAction.INSTALL, root, bundle, transport=transport)
    first, old = transport.sent, in_use(root)
    done = do(AgentAction.UPGRADE, root, newer(bundle), transport=transport)
    assert done.ok, done.message
    assert transport.sent < first - len(zlib.compress(bundle.code, 9)) + 1000
    assert (root / PREVIOUS[1:]).readlink().name == old != in_use(root)
    assert is_whole(root)


def test_no_more_than_three_versions_stay_and_never_one_that_is_not_needed(
    root: Path, bundle: Bundle,
) -> None:
    for number in range(5):
        assert do(AgentAction.INSTALL, root, newer(bundle, number)).ok
    found = [path.name for path in (root / BASE[1:]).iterdir() if re.fullmatch("[0-9a-f]{12}", path.name)]
    assert len(found) == 3
    assert {in_use(root), (root / PREVIOUS[1:]).readlink().name} <= set(found)


def test_rollback_goes_back_and_once_more_comes_back(root: Path, bundle: Bundle) -> None:
    do(AgentAction.INSTALL, root, bundle)
    assert "there is no version before" in do(AgentAction.ROLLBACK, root).message
    old = in_use(root)
    do(AgentAction.INSTALL, root, newer(bundle))
    new = in_use(root)
    assert do(AgentAction.ROLLBACK, root).message == f"{old} in use again, instead of {new}"
    assert in_use(root) == old
    assert do(AgentAction.ROLLBACK, root).ok
    assert in_use(root) == new


def test_a_version_before_that_is_damaged_is_not_gone_back_to(root: Path, bundle: Bundle) -> None:
    do(AgentAction.INSTALL, root, bundle)
    do(AgentAction.INSTALL, root, newer(bundle))
    new = in_use(root)
    (root / PREVIOUS[1:] / "rules.json").write_text("{}")
    done = do(AgentAction.ROLLBACK, root)
    assert not done.ok
    assert "damaged" in done.message
    assert in_use(root) == new


def test_uninstall_leaves_nothing_not_even_state_unless_that_is_kept(root: Path, bundle: Bundle) -> None:
    before = tree(root)
    do(AgentAction.INSTALL, root, bundle)
    do(AgentAction.INSTALL, root, newer(bundle))
    (root / "var/lib/muster/agent/snapshots").mkdir(parents=True)
    (root / "var/lib/muster/agent/result.json").write_text("{}")
    (root / "var/lib/prometheus/node-exporter/muster.prom").write_text("")
    done = do(AgentAction.UNINSTALL, root, keep_state=True)
    assert done.message == "nothing is left but /var/lib/muster/agent"
    assert (root / "var/lib/muster/agent/result.json").exists()
    assert do(AgentAction.UNINSTALL, root).message == "nothing is left, its state went too"
    assert {path for path in tree(root) if path not in before} <= {"opt", "run"}
    assert do(AgentAction.UNINSTALL, root).message == "nothing to do, no agent is installed here"


def test_uninstall_leaves_what_others_keep_beside_it(root: Path, bundle: Bundle) -> None:
    do(AgentAction.INSTALL, root, bundle)
    (root / "var/lib/muster/agent").mkdir(parents=True)
    (root / "var/lib/muster/store.sqlite").write_text("the head's")
    (root / "var/lib/prometheus/node-exporter/other.prom").write_text("another's")
    (root / "run/muster").mkdir(parents=True)
    (root / f"run/muster/child-{os.getpid()}").write_text("it lives")
    (root / "run/muster/child-999999999").write_text("it is gone")
    do(AgentAction.UNINSTALL, root)
    assert (root / "var/lib/muster/store.sqlite").exists()
    assert (root / "var/lib/prometheus/node-exporter/other.prom").exists()
    assert [path.name for path in (root / "run/muster").iterdir()] == [f"child-{os.getpid()}"]


def test_metrics_go_from_a_folder_that_is_no_longer_node_exporters(root: Path, bundle: Bundle) -> None:
    (root / "srv/metrics").mkdir(parents=True)
    customary = root / "var/lib/prometheus/node-exporter/muster.prom"
    do(AgentAction.INSTALL, root, bundle)
    customary.write_text("")
    assert units.CRON in do(AgentAction.INSTALL, root, bundle, textfile="/srv/metrics").changed
    assert not customary.exists()
    (root / "srv/metrics/muster.prom").write_text("")
    do(AgentAction.UNINSTALL, root)
    assert not (root / "srv/metrics/muster.prom").exists()
    assert "no folder /srv/other here for --textfile" in do(
        AgentAction.INSTALL, root, bundle, textfile="/srv/other").message


def test_nodes_that_are_to_have_it_get_the_root_owned_helper(
    root: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MUSTER_HELPER", raising=False)
    for changed in ((bundle.of(NODE).folder, "current", "/opt/muster/libexec/muster-probe", units.CRON), ()):
        (done,) = act([NODE], LocalTransport(), AgentRequest(AgentAction.INSTALL, root=str(root)), Limits(),
                      bundle, helped=[NODE])
        assert done.changed == tuple(changed), done.message
    made = root / "opt/muster/libexec/muster-probe"
    assert made.stat().st_mode & 0o777 == 0o755
    assert "serve(sys.argv[1:]" in made.read_text()


def test_a_dry_run_says_what_would_be_done_and_does_nothing(root: Path, bundle: Bundle) -> None:
    before = tree(root)
    assert do(
        AgentAction.INSTALL, root, bundle, dry=True).message == f"would install {bundle.of(NODE).folder}"
    assert tree(root) == before
    do(AgentAction.INSTALL, root, bundle)
    before = tree(root)
    assert do(
        AgentAction.UPGRADE, root, newer(bundle), dry=True).message.endswith(f"in place of {in_use(root)}")
    assert do(AgentAction.UNINSTALL, root, dry=True).message == f"would remove {in_use(root)}"
    assert tree(root) == before


def test_an_upgrade_is_for_nodes_that_have_an_agent(root: Path, bundle: Bundle) -> None:
    done = do(AgentAction.UPGRADE, root, bundle)
    assert (done.ok, done.message) == (False, "no agent is installed here; try: muster agent install")


def test_a_folder_that_others_may_write_to_is_not_installed_into(root: Path, bundle: Bundle) -> None:
    (root / BASE[1:]).mkdir(parents=True)
    (root / BASE[1:]).chmod(0o777)
    done = do(AgentAction.INSTALL, root, bundle)
    assert not done.ok
    assert "others than root may write to it" in done.message


def test_a_folder_that_is_a_link_is_not_installed_into(root: Path, bundle: Bundle) -> None:
    (root / "elsewhere").mkdir()
    (root / "opt").mkdir()
    (root / BASE[1:]).symlink_to(root / "elsewhere")
    assert not do(AgentAction.INSTALL, root, bundle).ok
    assert not list((root / "elsewhere").iterdir())


def test_what_does_not_start_on_the_node_is_not_switched_to(root: Path, bundle: Bundle) -> None:
    do(AgentAction.INSTALL, root, bundle)
    before = tree(root)
    done = do(AgentAction.INSTALL, root, dataclasses.replace(bundle, code=b"no zip file"))
    assert not done.ok
    assert "it does not start with" in done.message
    assert tree(root) == before


def test_a_damaged_version_in_use_is_mended(root: Path, bundle: Bundle) -> None:
    do(AgentAction.INSTALL, root, bundle)
    (root / CURRENT[1:] / "muster.pyz").write_bytes(b"cut")
    done = do(AgentAction.INSTALL, root, bundle)
    assert "repaired" in done.message
    assert is_whole(root)


@pytest.mark.parametrize("version", ["3.8", pytest.param("3.9", marks=pytest.mark.slow), "3.13"])
def test_older_and_newer_pythons_install_it(version: str, root: Path, real: Bundle) -> None:
    found = python(version)
    require(found is not None, f"no Python {version} here: pyenv install {version}")
    node = dataclasses.replace(NODE, python=str(found))
    done = do(AgentAction.INSTALL, root, real, node)
    assert done.ok, done.message
    assert str(done.report["python"]).startswith(f"{version}.")
    assert do(AgentAction.UNINSTALL, root, node=node).ok


def test_where_neither_systemd_nor_cron_is_that_is_said(root: Path, bundle: Bundle) -> None:
    (root / "etc/cron.d").rmdir()
    assert "neither systemd nor cron" in do(AgentAction.INSTALL, root, bundle).message


def test_without_root_it_says_what_to_do(bundle: Bundle) -> None:
    if os.geteuid() == 0:
        text = (ONNODE / "operations.py").read_text()
        assert "log in as root" in text
        answer = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-I", "-S", "-c",
             "import os; print(os.geteuid())"], capture_output=True, text=True, check=False)
        if answer.returncode:
            pytest.skip("setpriv cannot give up root here")
    (done,) = act([dataclasses.replace(NODE, python="/usr/bin/python3")], _Unprivileged(),
                  AgentRequest(AgentAction.INSTALL), Limits(), bundle)
    assert not done.ok
    assert "this needs root here: log in as root, or go through sudo with --become" in done.message


class _Unprivileged:
    """As `LocalTransport`, as no one."""

    def run(self, nodes, program: Program, limits: Limits) -> Iterator[Reply]:  # type: ignore[no-untyped-def]
        for node in nodes:
            argv = [node.python, "-I", "-S", "-c", program.loader, program.nonce, *program.arguments(node)]
            argv = (["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv]
                    if os.geteuid() == 0 else argv)
            answer = subprocess.run(argv, input=program.payload, capture_output=True, check=True).stdout
            yield Reply(node.name, answer.partition(b"frame ")[2].partition(b"\n")[2], None, 0.0, 0.0)


def killed_at(number: int, root: Path, bundle: Bundle, what: AgentAction = AgentAction.INSTALL) -> bool:
    """Does it with a program that is killed at its n-th change of a file; whether it was."""
    class Killed(LocalTransport):
        """Puts a line before the program."""

        def run(self, nodes, program, limits):  # type: ignore[no-untyped-def]
            _, _, packed = program.payload.partition(b"\n")
            text = _BEFORE.replace("NUMBER", str(number)).encode() + b"\n"
            source, _, document = zlib.decompress(packed).partition(b"\0")
            first, _, rest = source.partition(b"\n")
            packed = zlib.compress(first + b"\n" + text + rest + b"\0" + document)
            return super().run(
                nodes, dataclasses.replace(program, payload=b"%d\n%b" % (len(packed), packed)), limits)
    done = do(what, root, bundle, transport=Killed())
    return not done.ok and "signal 9" in done.message


_BEFORE = """
import os as _os
_left = [NUMBER]
def _wrapped(real):
    def call(*words, **named):
        _left[0] -= 1
        if _left[0] == 0:
            _os.kill(_os.getpid(), 9)
        return real(*words, **named)
    return call
for _name in ("mkdir", "rename", "symlink", "unlink", "rmdir", "fsync", "fchmod", "open"):
    setattr(_os, _name, _wrapped(getattr(_os, _name)))
"""


SOME = pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])


@pytest.mark.timeout(600)     # some thirty upgrades
@SOME
def test_killed_at_any_point_of_an_upgrade_a_whole_version_is_in_use_and_doing_it_again_finishes_it(
    root: Path, bundle: Bundle, step: int,
) -> None:
    do(AgentAction.INSTALL, root, bundle)
    old, new = in_use(root), newer(bundle)
    seen = set()
    for number in count(1, step):
        was_killed = killed_at(number, root, new)
        assert is_whole(root), f"at {number}"
        seen.add(in_use(root))
        if not was_killed:
            break
        assert do(AgentAction.INSTALL, root, new).ok
        assert in_use(root) == new.of(NODE).folder
        assert not [path for path in (root / BASE[1:]).iterdir() if path.name.endswith((".tmp", ".new"))]
        shutil.rmtree(root / BASE[1:])     # back to where it began
        assert do(AgentAction.INSTALL, root, bundle).ok
    assert number > 15
    assert seen == {old, new.of(NODE).folder}


@SOME
def test_killed_at_any_point_of_a_rollback_both_versions_are_still_known_and_it_can_be_done_again(
    root: Path, bundle: Bundle, step: int,
) -> None:
    do(AgentAction.INSTALL, root, bundle)
    old = in_use(root)
    do(AgentAction.INSTALL, root, newer(bundle))
    new = in_use(root)
    for number in count(1, step):
        before = in_use(root)
        was_killed = killed_at(number, root, bundle, AgentAction.ROLLBACK)
        assert is_whole(root), f"at {number}"
        report = do(AgentAction.STATUS, root).report
        assert {report["current"], report["previous"]} == {old, new}, f"at {number}"
        after = in_use(root)
        assert after != before or was_killed
        # An installation that comes next keeps both, too, and finishes what was cut short.
        assert do(AgentAction.INSTALL, root, bundle if after == old else newer(bundle)).ok
        assert {in_use(root), (root / PREVIOUS[1:]).readlink().name} == {old, new}
        assert not (root / BASE[1:] / ".swap").is_symlink()
        if not was_killed:
            break
    assert number > 8


def test_an_exporter_is_for_nodes_with_systemd_and_nothing_is_changed_on_others(
    root: Path, bundle: Bundle,
) -> None:
    before = tree(root)
    done = do(AgentAction.INSTALL, root, bundle, exporter="127.0.0.1:9847")
    assert not done.ok
    assert ("--exporter makes a unit of systemd, which is not here; /opt/muster/current/muster.pyz exporter "
            "starts it by hand" in done.message)
    assert {path for path in tree(root) if path not in before} <= {"opt", "opt/muster"}


@SOME
def test_killed_at_any_point_of_an_uninstall_doing_it_again_leaves_nothing(
    root: Path, bundle: Bundle, step: int,
) -> None:
    for number in count(1, step):
        assert do(AgentAction.INSTALL, root, bundle).ok
        was_killed = killed_at(number, root, bundle, AgentAction.UNINSTALL)
        assert do(AgentAction.UNINSTALL, root).ok
        assert not (root / BASE[1:]).exists()
        assert not (root / units.CRON[1:]).exists()
        if not was_killed:
            break
    assert number > 5


def test_a_head_that_dies_while_it_sends_leaves_the_node_as_it_was(root: Path, bundle: Bundle) -> None:
    do(AgentAction.INSTALL, root, bundle)
    before = tree(root)

    class Dies:
        """Sends the program, and half of what it asks for."""

        def run(self, nodes, program: Program,
                limits: Limits) -> Iterator[Reply]:  # type: ignore[no-untyped-def]
            (node,) = nodes
            argv = [node.python, "-I", "-S", "-c", program.loader, program.nonce, *program.arguments(node)]
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(program.payload)
            process.stdin.flush()
            while b"want" not in (line := process.stdout.readline()):
                assert line
            extra = program.extras[line.split()[1].decode()]
            process.stdin.write(b"%d\n" % len(extra) + extra[:len(extra) // 2])
            process.stdin.close()
            answer = process.stdout.read()
            process.stdout.close()
            process.wait()
            yield Reply(node.name, answer.partition(b"frame ")[2].partition(b"\n")[2], None, 0.0, 0.0)

    done = do(AgentAction.INSTALL, root, newer(bundle), transport=Dies())
    assert not done.ok
    assert "did not arrive whole, so nothing was changed" in done.message
    assert do(AgentAction.INSTALL, root, bundle).message.startswith("nothing to do")
    assert tree(root) == before


def test_two_commands_at_once_on_a_node_are_one_after_the_other(root: Path, bundle: Bundle) -> None:
    do(AgentAction.INSTALL, root, bundle)
    holder = subprocess.Popen(
        [sys.executable, "-c",
         f"import fcntl, os; fcntl.flock(os.open({str(root / BASE[1:])!r}, os.O_RDONLY), 2); "
         "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert "another muster agent command is at work here" in do(AgentAction.UNINSTALL, root).message
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert do(AgentAction.UNINSTALL, root).ok


def test_whoever_has_the_answer_may_begin_the_next_at_once(root: Path, bundle: Bundle) -> None:
    do(AgentAction.INSTALL, root, bundle)
    desired = AgentRequest(AgentAction.INSTALL, root=str(root))
    with at_its_answer(lambda transport: act([NODE], transport, desired, Limits(), bundle)):
        assert is_free(root / BASE[1:])


def test_status_tells_version_result_age_timer_and_python(
    root: Path, bundle: Bundle, capsys: pytest.CaptureFixture[str],
) -> None:
    none = status(do(AgentAction.STATUS, root))
    assert (none.installed, none.trouble) == (None, "no agent is installed")
    do(AgentAction.INSTALL, root, bundle)
    fresh = status(do(AgentAction.STATUS, root))
    assert fresh.trouble == "no result: No such file or directory"
    (root / "var/lib/muster/agent").mkdir(parents=True)
    result = root / "var/lib/muster/agent/result.json"
    result.write_text(json.dumps({"schema": "muster.agent/1", "time": 1e9, "state": "healthy"}))
    old = status(do(AgentAction.STATUS, root))
    assert old.trouble.endswith("old, over two periods of 5m")
    assert (old.installed, old.state, old.timer, old.period) == (in_use(root), "healthy", "cron", 300)
    assert old.python == ".".join(map(str, sys.version_info[:3]))
    assert show([old], "0.1.0", as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["nodes"][0]["installed"] == in_use(root)
    result.write_text(json.dumps({"time": 4e9}))
    assert "in the future" in status(do(AgentAction.STATUS, root)).trouble
    (root / CURRENT[1:] / "rules.json").write_text("cut")
    assert "its files are damaged" in status(do(AgentAction.STATUS, root)).trouble


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(
                        st.sampled_from(["ok", "message", "changed", "current", "result", "installed", "now",
                                         "time", "timer", "period", "whole"]), inner)))
def test_whatever_a_node_answers_it_is_reported_in_a_line(answer: object) -> None:
    done = install._done("gpu001", zlib.compress(json.dumps(answer).encode()))
    assert "\n" not in done.message
    found = status(done)
    assert "\n" not in found.trouble
    assert show([found], "0.1.0", as_json=True) in (0, 1, 3)


@given(st.binary())
def test_bytes_that_are_no_answer_are_none(body: bytes) -> None:
    assert not install._done("gpu001", body).ok


def test_what_runs_on_the_node_is_python_3_8() -> None:
    import ast

    for path in ONNODE.glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 8))
