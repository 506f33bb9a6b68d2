"""What decides and acts on nodes is held by tests: a small change of it that none notices is on a list, with
the reason why it may be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.mutation.code import SUBJECTS, _files, _members
from tests.mutation.mutants import sites

HERE = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("survivors.yaml")
# By subject of `tests.mutation.code`.
MODULES = {
    "decisions": ("breaker", "decide", "faults", "incidents", "plan", "requalify", "suspect"),
    "grounds": ("correlate", "episodes", "gather", "likelihood", "ours", "past", "symptom", "windows"),
    "policy": ("decidedby", "digest", "judgedby", "policy", "policylists", "policyload"),
    "tickets": ("changed", "ticket", "undo",
                "whole"),     # nothing of remediation can be changed: it is values alone
    "fabric": ("fabricincidents", "fabriclots", "fabricplaces", "fleetlots", "lots", "partslist"),
    "cordon": ("cordon",),
    "facts": ("base", "binding", "bmc", "bond", "boot", "cache", "carried_log", "components", "container",
              "container_config",
              "container_run", "containerd", "counter", "cpu", "cpuquota", "daemon_limits", "dcgm",
              "dimmslots", "disk",
              "divided", "docker", "driver", "edac", "files", "filesystem", "firmware",
              "firmwareversions", "freeblocks",
              "gpu", "gpu_answers", "gpu_process", "gpureadings", "gpuservers", "gpusigns", "hca",
              "host", "hugepages",
              "imex", "kernel", "kernel_event", "lldpneighbours", "local_disks", "memory", "module",
              "modules", "multipath",
              "netdev", "numa", "nvlink", "nvlink_fabric", "nvlink_place", "nvme", "nvml_output",
              "optics", "owners",
              "parsing", "pci", "pcie", "pcie_config", "persistence", "plain", "port", "process",
              "product", "raid",
              "raid_controller", "raid_tools", "resolver", "roce", "routes", "scsi", "seen_before",
              "self_tests", "service",
              "site", "smi", "smi_fabric", "smi_values", "smi_words", "storcli", "system", "team",
              "transceiver",
              "unanswered", "unit", "values", "vpd", "xid"),
    "judge": ("fleetjudge", "gpuless", "headclock", "judge", "leftout", "nodefacts", "nodereport", "peers",
              "samplejudge", "switchblame", "view",
              "whereabouts"),
    "ruleset": ("plugins", "portplan", "profile", "profileload", "rule", "ruleentries", "rulenames",
                "ruleplain", "ruleset", "rulesetcache",
                "rulesetload", "sku", "skuburnin", "skulimits"),
    "lease": ("check", "cordoned", "giveway", "holder", "idle", "jobs", "reservation", "take", "watch"),
}
LIMIT_S = 3600
# module, function, what is changed into what, and the line as it stands there
Change = tuple[str, str, str, str]


def listed() -> dict[Change, str]:
    """Changes that may go unnoticed, each with its reason."""
    return {(module, one["function"], what, one["line"]): one["reason"]
            for module, entries in yaml.safe_load(LISTED.read_text()).items() for one in entries
            for what in one["changes"]}


def changes(subject: str) -> Iterator[Change]:
    """All that can be changed in the modules of a subject."""
    for path in _files([SUBJECTS[subject][0]], HERE):
        if path.stem in MODULES[subject]:
            lines = path.read_text().splitlines()
            for function, line, what in sites(path.read_text(), _members(path)):
                yield path.stem, function, what, lines[line - 1].strip()


def test_every_change_on_the_list_can_be_made_and_has_a_reason() -> None:
    possible = {change for subject in MODULES for change in changes(subject)}
    assert listed().keys() <= possible, "take these from the list: the code is another by now"
    assert all(len(reason) > 20 for reason in listed().values())


def test_every_module_on_the_list_is_there() -> None:
    assert [(subject, name) for subject, names in MODULES.items() for name in names
            if not any(path.stem == name for path in _files([SUBJECTS[subject][0]], HERE))] == []


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("subject", MODULES)
def test_every_small_change_of_what_decides_and_acts_on_nodes_fails_a_test_or_is_listed_with_a_reason(
        subject: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.mutation.code", str(tmp_path), subject,
                           *MODULES[subject]], cwd=HERE,
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: Mapping[str, Any] = json.loads(done.stdout)
    assert "error" not in found, found.get("error")
    assert found["failed"] == []
    assert {one["where"].partition(".py:")[0] for one in found["changes"].values()} == set(MODULES[subject])
    # What took too long, or could not be changed, no test has noticed either.
    assert [one for one in found["changes"].values() if one["noticed"][:1] in ("", "(")
            and _of(one) not in listed()] == []


def _of(one: Mapping[str, Any]) -> Change:
    module, _, rest = str(one["where"]).partition(".py:")
    return module, rest.partition(" ")[2], str(one["what"]), str(one["text"])
