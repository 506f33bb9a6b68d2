"""The commands of the README and the topics are run, page by page and in their order, against a demo fleet behind real sshd.

A command must do its work: it ends with an exit code that says something of nodes (0, 1, 3 or 4), and never with 2, which says that the
command line, the configuration or a file is wrong. What needs a scheduler, management controllers, PyTorch or systemd is run by the tests of
those packages, on real ones or stand-ins; `ELSEWHERE` says by which.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from provisioning.demo.fleet import DemoFleet
from tests.command import MUSTER, environment, muster
from tests.healthcheck.help.pages import PAGES, ROOT, Shown, blocks, commands, name
from tests.healthcheck.help.worlds import WORLDS, World, begin
from tests.testbed.require import require_fleet

LIMIT_S = 600
pytestmark = pytest.mark.timeout(LIMIT_S)

# Which test runs a command that needs more than a fleet, by the words that it begins with; all of a page where there are none.
ELSEWHERE: Mapping[str, Mapping[tuple[str, ...], str]] = {
    "agent": {("agent",): "tests/provisioning/agent/test_agent_command.py"},
    "base": {("bringup", "base"): "tests/provisioning/base/test_base_command.py"},
    "blame": {("blame", "4711"): "tests/healthcheck/blame/test_blame.py"},
    "bmc": {("bmc",): "tests/provisioning/bmc/test_bmc_command.py"},
    "bringup": {("bringup", "run"): "tests/provisioning/bringup/test_run_command.py",
                ("bringup",): "tests/provisioning/bringup/test_command.py"},
    "burnin": {("burnin", "run"): "tests/provisioning/burnin/site.py", ("burnin",): "tests/provisioning/burnin/test_command.py"},
    "certificates": {("certificate", "issue"): "tests/healthcheck/gate/test_publish.py",
                     ("certificate", "revoke"): "tests/healthcheck/gate/test_publish.py",
                     ("gate", "publish"): "tests/healthcheck/gate/test_publish.py"},
    "demo": {("demo",): "tests/provisioning/demo/test_demo.py"},
    "discover": {("inventory", "discover"): "tests/provisioning/discover/test_command.py"},
    "disruptive": {("check", "gpu[001-004]", "--disruptive"): "tests/provisioning/lease/test_disruptive.py"},
    "gate": {("gate", "@train"): "tests/healthcheck/gate/test_command.py", ("gate", "--hostfile"): "tests/healthcheck/gate/test_spares.py",
             ("blame",): "tests/healthcheck/blame/test_blame.py"},
    "incidents": {("incident",): "tests/healthcheck/triage/test_incident_command.py"},
    "kubernetes": {("cordon",): "tests/provisioning/actions/test_backends.py", ("uncordon",): "tests/provisioning/actions/test_backends.py"},
    "screening": {("burnin", "screen"): "tests/provisioning/burnin/test_screen.py"},
}
# These go on until they are ended.
ENDLESS = ("--every",)
# What a command is right to refuse, by what it says.
REFUSED = {("check", "gpu001", "--only", "dcgm-diag-medium"): "is disruptive and needs a lease"}
# Pages whose output is of these very nodes or files: all that they show is printed, but for numbers, times and digests. What the others show
# was recorded on other nodes, which they say.
SAME = ("baseline", "explain", "importing", "kernel-log", "nodes", "privilege", "triage")
HERE = [page for page in PAGES if any(True for _ in commands(page))]


def elsewhere(shown: Shown) -> str:
    """The test that runs it; empty where it is run here."""
    return next((test for words, test in ELSEWHERE.get(shown.page, {}).items() if shown.words[: len(words)] == words), "")


@pytest.fixture(scope="module")
def fleet() -> Iterator[DemoFleet]:
    require_fleet()
    with DemoFleet(8, 6) as running:
        yield running


def endless(shown: Shown, home: Path) -> tuple[int, str]:
    """Its code and what it wrote until then, when it is interrupted after some work."""
    with subprocess.Popen([str(MUSTER), *shown.words], cwd=home, env=environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
    return child.returncode, first + rest


def shape(line: str) -> str:
    """A line without what differs from run to run."""
    line = re.sub(r"muster:[0-9a-f]{4}|[0-9a-f]{8,}|\d+", "0", line)
    return " ".join(line.split())


def output(page: Path) -> list[str]:
    """The lines that a page shows as output, without those that stand for others."""
    shown = [line for language, text in blocks(page) if language == "console" for line in text.splitlines()]
    return [line for line in shown if line.strip() and not line.startswith("$ ") and not line.strip().startswith("...")]


@pytest.mark.parametrize("page", HERE, ids=name)
def test_what_a_page_asks_to_type_does_its_work(page: Path, fleet: DemoFleet, tmp_path: Path) -> None:
    world: World = begin(tmp_path, fleet)
    if name(page) in WORLDS:
        WORLDS[name(page)](world)
    printed: list[str] = []
    for shown in commands(page):
        if elsewhere(shown):
            continue
        if any(word in shown.words for word in ENDLESS):
            code, said = endless(shown, tmp_path)
            assert code in (0, 130), f"{shown}\n{said}"
            continue
        done = muster(*shown.words, home=tmp_path, timeout=120)
        said = done.stdout + done.stderr
        printed += map(shape, said.splitlines())
        assert "Traceback" not in said, f"{shown}\n{said}"
        if shown.words in REFUSED:
            assert done.returncode == 2 and REFUSED[shown.words] in said, f"{shown}\n{said}"
        else:
            assert done.returncode in (0, 1, 3, 4), f"{shown}: {done.returncode}\n{said}"
    if name(page) in SAME:
        gone = [line for line in output(page) if not any(shape(line.removesuffix("...")) in one for one in printed)]
        assert gone == [], f"{name(page)} shows what muster does not print any more"


@pytest.mark.parametrize(("page", "words", "test"), [(page, words, test) for page, these in ELSEWHERE.items() for words, test in these.items()])
def test_what_is_run_elsewhere_is_run_there(page: str, words: tuple[str, ...], test: str) -> None:
    """Each command of the page that begins so stands in that test, by the last of its words that name a command."""
    shown = [one for each in PAGES if name(each) == page for one in commands(each)
             if elsewhere(one) == test and one.words[: len(words)] == words]
    assert shown, f"{page} shows no {' '.join(words)} any more"
    text = (ROOT / test).read_text()
    for one in shown:
        said = [word for word in one.words[:2] if word.isalpha()]
        assert all(re.search(rf"\b{word}\b", text) for word in said), f"{test} has no {said}"
