"""What starts the agent: the texts for systemd and cron."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.agent.main import LIMIT_S as AGENT_LIMIT_S
from inventory.errors import UsageError
from provisioning.agent import units


@pytest.mark.parametrize(
    ("period", "when"),
    [(10, "*/1 * * * *"), (60, "*/1 * * * *"), (300, "*/5 * * * *"), (420, "*/6 * * * *"),
     (3599, "*/30 * * * *"), (3600, "0 */1 * * *"), (5 * 3600, "0 */4 * * *"), (86400, "0 */12 * * *")])
def test_cron_looks_at_least_as_often_as_is_asked_where_its_minutes_can_say_so(
    period: float, when: str,
) -> None:
    assert f"\n{when} root " in units.cron(period)


@given(st.text(), st.floats(10, 86400))
def test_a_node_has_a_delay_of_its_own_within_a_fifth_of_the_period(name: str, period: float) -> None:
    assert 0 <= units.delay(name, period) <= min(300, period / 5)
    assert units.delay(name, period) == units.delay(name, period)


def test_nodes_do_not_look_all_at_once() -> None:
    delays = [units.delay(f"gpu{number:03}", 300) for number in range(600)]
    assert max(map(delays.count, range(60))) < 30


@given(st.floats(10, 86400))
def test_a_result_is_never_two_periods_old_by_what_the_timer_may_do(period: float) -> None:
    timer = dict(re.findall(r"^(\w+Sec)=([0-9.e+]+)s$", units.units(period)[units.TIMER], re.MULTILINE))
    latest = sum(float(timer[name]) for name in ("OnUnitActiveSec", "RandomizedDelaySec", "AccuracySec"))
    assert latest < 1.5 * period
    assert float(timer["OnActiveSec"]) <= period


def test_the_service_ends_a_look_that_did_not_end_itself_and_waits_for_no_one_else() -> None:
    service = units.units(300)[units.SERVICE]
    assert AGENT_LIMIT_S < units.LIMIT_S
    assert f"TimeoutStartSec={units.LIMIT_S}\n" in service
    assert "KillMode=process\n" in service
    for setting in ("MemoryMax", "CPUWeight", "CPUQuotaPeriodSec", "CPUQuota", "TasksMax", "Nice",
                    "IOSchedulingClass", "NoNewPrivileges=yes",
                    "CapabilityBoundingSet"):
        assert f"\n{setting}" in service


def test_no_busy_node_starves_the_agent_and_a_job_loses_little_of_one_core() -> None:
    settings = dict(re.findall(r"^(\w+)=(\S+)$", units.units(300)[units.SERVICE], re.MULTILINE))
    # The share that an equal weight leaves beside four threads a core, each in a group of its own.
    assert int(settings["CPUWeight"]) >= 100 and int(settings["Nice"]) <= 0
    quota = int(settings["CPUQuota"].rstrip("%")) / 100
    assert AGENT_LIMIT_S * min(quota, 1 / 5) >= 10      # seconds of CPU before it gives itself up
    # What a job's step may be held at once, in ms.
    assert quota * int(settings["CPUQuotaPeriodSec"].removesuffix("ms")) <= 5 and quota <= 0.25
    assert settings["IOSchedulingClass"] != "idle"
    assert "nice" not in units.cron(300) and f"timeout -k 5 {units.LIMIT_S} @COMMAND@" in units.cron(300)


def test_the_exporter_is_no_one_and_may_read_only() -> None:
    text = units.exporter("[::1]:9847")
    assert "\nExecStart=@EXPORTER@ --listen [::1]:9847\n" in text
    for setting in ("DynamicUser=yes", "CapabilityBoundingSet=CAP_DAC_READ_SEARCH", "ProtectSystem=strict",
                    "NoNewPrivileges=yes", "MemoryMax="):
        assert f"\n{setting}" in text


@pytest.mark.parametrize(
    "listen",
    ["9847", ":9847", "a b:9847", "$HOME:9847", "%H:9847", "[fe80::1%eth0]:9847", "0.0.0.0:80", "x\n:9847"])
def test_what_cannot_stand_in_a_unit_is_refused(listen: str) -> None:
    with pytest.raises(UsageError, match="--exporter"):
        units.exporter(listen)


def test_no_setting_gives_it_a_mount_namespace() -> None:
    # systemd.exec(5): each of these implies one.
    made = ("ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateMounts", "ProtectKernel",
            "ProtectControlGroups", "ProtectProc", "ProcSubset", "ProtectHostname", "ReadWritePaths",
            "ReadOnlyPaths", "InaccessiblePaths", "TemporaryFileSystem", "BindPaths", "RootDirectory",
            "DynamicUser", "StateDirectory", "RuntimeDirectory")
    assert not [line for line in units.units(300)[units.SERVICE].splitlines() if line.startswith(made)]
