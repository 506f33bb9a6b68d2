"""Fixtures that several test folders use."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import settings

from tests import forked, packagedrules
from tests.testbed import fuse
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, Sshd, sshd
from tests.tries import tries
from tests.workers import pytest_addoption, pytest_runtestloop  # noqa: F401  (hooks)

# Of each property that does not say how many.
settings.register_profile("muster", parent=settings(), max_examples=tries(75))
settings.load_profile("muster")

# Files that take longest, longest first; most of that is waiting. Begun early, none is left for one worker at the end, and with short ones
# between them, the cores have work meanwhile. (Seconds, as three workers on two cores took them.)
LONGEST = (
    "tests/healthcheck/burnin/test_guilty.py",
    "tests/provisioning/burnin/test_whole.py",
    "tests/healthcheck/burnin/test_worker_faults.py",
    "tests/healthcheck/burnin/test_planted.py",
    "tests/provisioning/agent/test_systemd.py",             # 120
    "tests/provisioning/bringup/test_sixtyfour.py",         # 80
    "tests/provisioning/lease/test_disruptive.py",          # 76
    "tests/provisioning/burnin/test_nccltests_engine.py",
    "tests/provisioning/bringup/test_run_command.py",
    "tests/provisioning/bringup/test_command.py",
    "tests/healthcheck/help/test_commands_run.py",         # 230
    "tests/provisioning/firmware/test_update.py",           # 92
    "tests/inventory/transport/test_slow_nodes.py",         # 113
    "tests/provisioning/bringup/steps/test_onmachine_steps.py",   # 70
    "tests/provisioning/demo/test_demo.py",                      # 67
    "tests/provisioning/triage/test_kill.py",
    "tests/provisioning/bringup/test_os_kill.py",           # 36
    "tests/provisioning/triage/test_incidents.py",
    "tests/provisioning/burnin/test_consequences.py",
    "tests/healthcheck/test_docker_live.py",                # 65
    "tests/healthcheck/test_record.py",                     # 63
    "tests/inventory/transport/test_both.py",               # 55
    "tests/test_bundle.py",                                 # 60
    "tests/healthcheck/test_end_to_end.py",                 # 48
    "tests/provisioning/actions/test_slurm_power.py",
    "tests/provisioning/actions/test_backends.py",
    "tests/healthcheck/test_reach_limits.py",
    "tests/healthcheck/test_invariants_live.py",            # 40
    "tests/scenarios/test_scenarios.py",                    # 74 of CPU time alone, and the next 35
    "tests/scenarios/test_unmeasured.py",
    "tests/corpus/test_fleets.py",
    "tests/healthcheck/sweep/test_from_prometheus.py",
    "tests/healthcheck/agent/test_log_fault.py",
    "tests/inventory/transport/test_sruntree.py",           # 60
    "tests/inventory/transport/test_hops.py",               # 45
    "tests/provisioning/actions/test_slurm_reboot.py",      # 33
    "tests/healthcheck/sweep/test_evidence.py",             # 33
    "tests/healthcheck/sweep/test_farm.py",                 # 31
    "tests/provisioning/agent/test_install.py",             # 30
    "tests/healthcheck/exporter/test_prometheus.py",        # 30
    "tests/healthcheck/test_scrub.py",
    "tests/healthcheck/test_scrub_replay.py",
    "tests/healthcheck/judge/test_invariants.py",
    "tests/provisioning/triage/test_stateful.py",
    "tests/provisioning/triage/test_incidents_stateful.py",
    "tests/healthcheck/test_every.py",                      # 27
    "tests/healthcheck/agent/test_agent_run.py",            # 25
    "tests/provisioning/discover/test_command.py",          # 25
    "tests/provisioning/bringup/engine/test_run_kill.py",          # 25
    "tests/provisioning/lease/test_leases_in_slurm.py",     # 23
    "tests/inventory/transport/test_ssh.py",                # 21
    "tests/inventory/test_import.py",                       # 20
    "tests/provisioning/triage/test_slurm.py",              # 18
)
_BETWEEN = 6


def pytest_configure(config: pytest.Config) -> None:
    # What is made while the tests are read stays until the end: it is not looked through for garbage then, nor, after that, again and again.
    gc.disable()
    packagedrules.keep()
    # What a shell sends to the background has SIGINT ignored, and under nohup SIGHUP; children inherit that, and tests send both to
    # theirs. A handler of ours, even one that does nothing, is not inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.option.workers and not session.config.option.collectonly:
        forked.server()     # one for all workers, which imports while tests are read


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    short = iter(sorted(files.keys() - set(LONGEST)))
    order = [name for longest in LONGEST if longest in files for name in (longest, *islice(short, _BETWEEN))]
    items[:] = [item for name in (*order, *short) for item in files[name]]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def plain_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """One sshd for all tests that only need to log in somewhere."""
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    with sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def needs_fuse() -> None:
    """For tests with a file system that never answers."""
    missing = fuse.available()
    require(missing is None, str(missing))


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test uses the agent of whoever runs it."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
