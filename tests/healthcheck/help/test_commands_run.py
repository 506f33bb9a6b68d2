"""The commands of the README and the topics are run, page by page and in their order, against a demo fleet
behind real sshd.

A command must do its work: it ends with an exit code that says something of nodes (0, 1, 3 or 4), and never
with 2, which says that the command line, the configuration or a file is wrong. What needs a scheduler,
management controllers, PyTorch or systemd is run by the tests of those packages, on real ones or stand-ins;
`ELSEWHERE` says by which.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from inventory.transport.base import Stage
from provisioning.demo.fleet import DemoFleet
from tests import forked
from tests.command import MUSTER, environment
from tests.healthcheck.help.pages import PAGES, README, ROOT, Shown, blocks, commands, lines, name, of_line
from tests.healthcheck.help.worlds import WORLDS, World, begin
from tests.testbed.require import require_fleet

LIMIT_S = 600
pytestmark = pytest.mark.timeout(LIMIT_S)

# Which test runs a command that needs more than a fleet, by the words that it begins with; all of a page
# where there are none.
ELSEWHERE: Mapping[str, Mapping[tuple[str, ...], str]] = {
    "agent": {("agent",): "tests/provisioning/agent/test_agent_command.py"},
    "base": {("bringup", "base"): "tests/provisioning/base/test_base_command.py"},
    "blame": {("blame", "4711"): "tests/healthcheck/blame/test_blame.py"},
    "bmc": {("bmc", "accounts"): "tests/provisioning/bmc/test_accounts_command.py",
            ("bmc",): "tests/provisioning/bmc/test_bmc_command.py"},
    "bringup": {("bringup", "run"): "tests/provisioning/bringup/test_run_command.py",
                ("bringup",): "tests/provisioning/bringup/test_command.py"},
    "burnin": {("burnin", "run"): "tests/provisioning/burnin/site.py",
               ("burnin",): "tests/provisioning/burnin/test_command.py"},
    "certificates": {("certificate", "issue"): "tests/healthcheck/gate/test_publish.py",
                     ("certificate", "revoke"): "tests/healthcheck/gate/test_publish.py",
                     ("gate", "publish"): "tests/healthcheck/gate/test_publish.py"},
    "demo": {("demo",): "tests/provisioning/demo/test_demo.py"},
    "discover": {("inventory", "discover"): "tests/provisioning/discover/test_command.py",
                 ("inventory", "labels"): "tests/provisioning/discover/test_labels_command.py"},
    "disruptive": {("check", "gpu[001-004]", "--disruptive"): "tests/provisioning/lease/test_disruptive.py"},
    "fabric-burn": {("fabric",): "tests/healthcheck/subnet/test_fabric_burn_command.py",
                    ("burnin", "run"): "tests/provisioning/burnin/test_perftest_engine.py"},
    "fabric-plan": {("fabric",): "tests/healthcheck/subnet/test_fabric_commands.py"},
    "fabric-ufm": {("fabric", "disable"): "tests/provisioning/fabric/test_ufm.py",
                   ("fabric", "enable"): "tests/provisioning/fabric/test_ufm.py",
                   ("fabric",): "tests/healthcheck/subnet/test_ufm_command.py"},
    "fabric-ports": {("fabric", "disable"): "tests/provisioning/fabric/test_fabric_ports_command.py",
                     ("fabric", "enable"): "tests/provisioning/fabric/test_fabric_ports_command.py",
                     ("fabric", "history"): "tests/healthcheck/subnet/test_history_command.py"},
    "firmware": {("firmware", "status"): "tests/provisioning/firmware/test_status_command.py",
                 ("firmware", "update"): "tests/provisioning/firmware/test_update_command.py"},
    "gate": {("gate", "@train"): "tests/healthcheck/gate/test_command.py",
             ("gate", "--hostfile"): "tests/healthcheck/gate/test_spares.py",
             ("blame",): "tests/healthcheck/blame/test_blame.py"},
    "images": {("images",): "tests/provisioning/images/test_command.py"},
    "incidents": {("incident",): "tests/healthcheck/triage/test_incident_command.py"},
    "kubernetes": {("cordon",): "tests/provisioning/actions/test_backends.py",
                   ("uncordon",): "tests/provisioning/actions/test_backends.py"},
    "maas": {("os", "release"): "tests/provisioning/osinstall/test_os_release.py"},
    "os": {("bringup", "retry"): "tests/provisioning/bringup/test_command.py",
           ("inventory", "enroll"): "tests/provisioning/bringup/steps/test_os_ssh_live.py"},
    "pxe": {("os",): "tests/provisioning/osinstall/test_os_command.py"},
    "screening": {("burnin", "screen"): "tests/provisioning/burnin/test_screen.py"},
}
# Sweeps that another line of the page, or of another page, makes as well, with options that have each a test
# of its own: the slow tier runs them, too.
AGAIN: Mapping[str, frozenset[str]] = {
    "README": frozenset({"muster check 'gpu[001-006]' --brief"}),
    "results": frozenset({"muster check", "muster check 'gpu[001-006]'",
                          "muster check --timeout 60s --fanout 128",
                          "muster check --format json > check.json", "muster check --local",
                          "muster check 'gpu[001-006]' --brief",
                          "muster check 'gpu[001-006]' --all",
                          "muster check --full --format json | jq '.nodes[0].results | length'"}),
    "from-prometheus": frozenset({"muster check --from-prometheus http://127.0.0.1:9090",
                                  "muster check --from-prometheus http://127.0.0.1:9090 --max-age 10m "
                                  "--format json"}),
    "change": frozenset({"muster check --save before", "muster check --save after"}),
    "init": frozenset({"muster init 'gpu[001-008]' --accept-keys --accept-skus"}),
    "profiles": frozenset({"muster check --profile bringup"}),
    "recordings": frozenset({"muster check --save monday"}),
    "history": frozenset({"muster check --store"}),
    "sku": frozenset({"muster sku learn 'gpu[001-006]' --name ours"}),
    "triage": frozenset({"muster check --store"}),
}
# What later lines need of one of those: the same from a sweep made before.
INSTEAD: Mapping[tuple[str, str], Callable[[World], None]] = {
    ("change", "muster check --save before"): lambda world: world.saved("before"),
    ("change", "muster check --save after"): lambda world: world.saved("after"),
    ("recordings", "muster check --save monday"): lambda world: world.saved("monday"),
    ("history", "muster check --store"): World.stored,
    ("init", "muster init 'gpu[001-008]' --accept-keys --accept-skus"): World.stored,
    ("from-prometheus", "muster check --from-prometheus http://127.0.0.1:9090"): World.stored}
# These go on until they are ended.
ENDLESS = ("--every",)
# What a command is right to refuse, by what it says.
REFUSED = {("check", "gpu001", "--only", "dcgm-diag-medium"): "is disruptive and needs a lease"}
# Pages whose output was recorded on other nodes, which they say. What the others show is printed, line by
# line and in its order, but for numbers, times and digests.
RECORDED = ("cordon", "incidents", "remediate")
# Pages whose nodes are the six of seed 4, the README's; those of the others are the eight of seed 6, as in
# its picture.
SIX = ("README", "history", "profiles", "recordings", "sku", "ssh")
# How a node is shown that was not reached: with the stage that failed.
# But for the one whose key the page has muster refuse, as it shows above.
UNREACHED = re.compile(
    rf"^UNKNOWN  not measured.*\n    (?!gpu003\n        host key: )\S.*\n        "
    rf"(?:{'|'.join(stage.value for stage in Stage)}): ",
    re.MULTILINE)
HERE = [page for page in PAGES if any(True for _ in commands(page))]


def elsewhere(shown: Shown) -> str:
    """The test that runs it; empty where it is run here."""
    return next((test
                 for words, test in ELSEWHERE.get(shown.page, {}).items()
                 if shown.words[: len(words)] == words), "")


@pytest.fixture(scope="module")
def eight() -> Iterator[DemoFleet]:
    require_fleet()
    with DemoFleet(8, 6) as running:
        yield running


@pytest.fixture(scope="module")
def six() -> Iterator[DemoFleet]:
    require_fleet()
    with DemoFleet(6, 4) as running:
        yield running


def typed(shown: Shown, home: Path) -> tuple[int, str]:
    """Its code and all that it wrote, in the order in which a terminal shows it."""
    done = forked.run([str(MUSTER), *shown.words], cwd=home, env=environment(home), timeout=120, merged=True)
    return done.returncode, done.stdout


def endless(shown: Shown, home: Path) -> tuple[int, str]:
    """Its code and what it wrote until then, when it is interrupted after some work."""
    with subprocess.Popen([str(MUSTER), *shown.words], cwd=home, env=environment(home),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
    return child.returncode, first + rest


def shape(line: str) -> str:
    """A line without what differs from run to run; quantities that rules compare stay."""
    line = re.sub(
        r"muster:[0-9a-f]{4}|SHA256:[\w+/]+|[0-9a-f]{8,}|\d+ (?:s|min)(?= old)|\d+(?!\d| GiB| Gb/s)", "0",
        line.replace(f"{ROOT}/", ""))
    return " ".join(line.split())


def gone(shown: Iterable[str], printed: Sequence[str]) -> str:
    """The first line of a page that was not printed, or not behind the one that the page shows before it;
    empty where there is none."""
    left = iter([shape(line) for line in printed])
    return next((line for line in shown if not any(shape(line.removesuffix("...")) in one for one in left)),
                "")


def test_output_is_compared_in_its_order_and_with_its_quantities() -> None:
    printed = ["6 nodes, 22.5 s", "gpu001  unhealthy", "  memory: 1952 GiB, expected 1956 GiB", "  and more"]
    assert gone(["5 nodes, 1.0 s", "  memory: 1952 GiB, expected..."], printed) == ""
    assert gone(["  and more", "gpu001  unhealthy"], printed) == "gpu001  unhealthy"
    assert gone(["  memory: 1952 GiB, expected 1987 GiB"], printed) and gone(["gpu001  healthy"], printed)


def ran(shown: Shown, home: Path) -> str:
    """What it printed; it has done its work."""
    code, said = typed(shown, home)
    assert "Traceback" not in said, f"{shown}\n{said}"
    if shown.words in REFUSED:
        assert code == 2 and REFUSED[shown.words] in said, f"{shown}\n{said}"
    else:
        assert code in (0, 1, 3, 4), f"{shown}: {code}\n{said}"
        assert not UNREACHED.search(said), f"{shown}\n{said}"
    return said


def test_a_node_that_the_page_makes_unreachable_is_noticed(eight: DemoFleet, tmp_path: Path) -> None:
    begin(tmp_path, eight).edit('user: "root"', "user: muster-has-no-such-user")
    with pytest.raises(AssertionError, match="auth"):
        ran(Shown("page", ("check", "gpu001"), "muster check gpu001"), tmp_path)


@pytest.mark.parametrize("page", AGAIN)
def test_a_line_that_the_fast_tier_leaves_out_stands_on_its_page(page: str) -> None:
    typed_there = {line.text for each in PAGES if name(each) == page
                   for language, text in blocks(each) for line in lines(language, text)}
    assert AGAIN[page] < typed_there


@pytest.mark.parametrize(("page", "whole"), [
    *(pytest.param(page, False, id=name(page)) for page in HERE),
    *(pytest.param(page, True, id=f"{name(page)}, whole", marks=pytest.mark.slow)
      for page in HERE if name(page) in AGAIN)])
def test_what_a_page_asks_to_type_does_its_work(page: Path, whole: bool, request: pytest.FixtureRequest,
                                                tmp_path: Path) -> None:
    of_six = name(page) in SIX
    world: World = begin(tmp_path, request.getfixturevalue("six" if of_six else "eight"),
                         sweeps=1 if of_six else 2)
    if name(page) in WORLDS:
        WORLDS[name(page)](world)
    for language, text in blocks(page):
        # as its reader does; the file of `inventory` is of other nodes
        if page == README and language == "yaml":
            (tmp_path / "muster.yaml").write_text(text)
        for line in lines(language, text):
            these = list(of_line(name(page), line.text))
            if not these or any(map(elsewhere, these)):
                continue
            if not whole and line.text in AGAIN.get(name(page), ()):
                INSTEAD.get((name(page), line.text), lambda world: None)(world)
                continue
            if any(word in shown.words for shown in these for word in ENDLESS):
                code, said = endless(these[0], tmp_path)
                assert code in (0, 130), f"{these[0]}\n{said}"
                continue
            printed = "".join(ran(shown, tmp_path) for shown in these).replace(f"{tmp_path}/", "~/")
            if name(page) not in RECORDED:
                missing = gone(line.output, printed.splitlines())
                assert (missing
                        == ""), (f"{name(page)} shows what `{line.text}` does not print (any more, or "
                                 f"there):\n{missing}\n\n{printed}")


@pytest.mark.parametrize(("page", "words", "test"), [(page, words, test) for page, these in ELSEWHERE.items()
                                                     for words, test in these.items()])
def test_what_is_run_elsewhere_is_run_there(page: str, words: tuple[str, ...], test: str) -> None:
    """Each command of the page that begins so stands in that test, by the last of its words that name a
    command."""
    shown = [one for each in PAGES if name(each) == page for one in commands(each)
             if elsewhere(one) == test and one.words[: len(words)] == words]
    assert shown, f"{page} shows no {' '.join(words)} any more"
    text = (ROOT / test).read_text()
    for one in shown:
        said = [word for word in one.words[:2] if word.isalpha()]
        assert all(re.search(rf"\b{word}\b", text) for word in said), f"{test} has no {said}"
