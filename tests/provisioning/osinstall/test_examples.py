"""The example programs of the topic `os`, against stand-ins that print what is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inventory.model import Node
from provisioning.osinstall.base import OsReport, OsState
from provisioning.osinstall.command import ByCommand
from tests.testbed.planted import executable

PAGE = (Path(__file__).parents[3] / "healthcheck/help/os.md").read_text()
EXAMPLES = dict(re.findall(r"^### (\w+)[^\n]*\n.*?^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDL7QHzCcmlBjaLs6jqbZHNfuCp2jmuZjNszJrqTxcRH"
HEAD = "NODENAME        STAGE           SENT                      LASTSEEN   SECURITY\n" + "=" * 80 + "\n"


def asked(folder: Path, example: str, tools: dict[str, str],
          monkeypatch: pytest.MonkeyPatch) -> tuple[OsReport, str]:
    """What the example says of n1 where each tool prints this, and which tools an installation called."""
    bin_, keys, log = folder / "bin", folder / "keys", folder / "log"
    bin_.mkdir()
    keys.mkdir()
    (keys / "ssh_host_ed25519_key.pub").write_text(f"{KEY} root@head\n")
    for tool, text in tools.items():
        executable(bin_ / tool, f"#!/bin/sh\necho {tool} \"$@\" >>{log}\ncat <<'END'\n{text}END\n")
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    program = executable(
        folder / "os", re.sub(r"/etc/(xcat/hostkeys|warewulf/keys)", str(keys), EXAMPLES[example]))
    back = ByCommand((str(program),), 20, drives_power=False)
    report = back.state(Node("n1"))
    log.write_text("")
    back.install(Node("n1"))
    return report, log.read_text()


def test_there_is_an_example_for_each_tool_and_it_says_that_the_real_one_was_not_used() -> None:
    assert set(EXAMPLES) == {"xCAT", "Warewulf", "BCM"}
    assert "were run against stand-ins, not against the real tools" in PAGE


XCAT = [("booted", OsState.INSTALLED), ("alive", OsState.INSTALLED), ("installing", OsState.INSTALLING),
        ("postbooting", OsState.INSTALLING),
        ("", OsState.PLANNED), ("defined", OsState.PLANNED), ("unreachable", OsState.UNKNOWN),
        ("powering-off", OsState.UNKNOWN)]
WAREWULF = [
    ("n1              RUNTIME OVERLAY __RUNTIME__.img.gz        16         QUERY\n", OsState.INSTALLED),
    ("n1                   RUNTIME_OVERLAY      __RUNTIME__.img.gz        16\n", OsState.INSTALLED),
    ("n1              RUNTIME OVERLAY __RUNTIME__.img.gz        700        QUERY\n", OsState.UNKNOWN),
    ("n1              IPXE            default.ipxe              3          OK\n", OsState.INSTALLING),
    ("n1              --              --                        --         --\n", OsState.PLANNED),
    ("", OsState.PLANNED)]


@pytest.mark.parametrize(("tool", "says", "state", "installs"), [
    *(("xCAT", {"lsdef": f"n1: status={status}\n", "rinstall": ""}, state, "rinstall n1\n")
      for status, state in XCAT),
    *(("Warewulf", {"wwctl": HEAD + line}, state, "wwctl overlay build n1\n") for line, state in WAREWULF)])
def test_xcat_and_warewulf(
    tmp_path: Path, tool: str, says: dict[str, str], state: OsState, installs: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report, installed = asked(tmp_path, tool, says, monkeypatch)
    assert report.state is state
    assert report.host_keys == ((KEY,) if state is OsState.INSTALLED else ())
    assert installed == installs


@pytest.mark.parametrize(("status", "state"), [
    ("[   UP   ]", OsState.INSTALLED), ("[  DOWN  ]", OsState.UNKNOWN),
    ("[  INSTALLING  ] (node installer started)", OsState.INSTALLING),
    ("[  INSTALLER_FAILED  ]", OsState.FAILED), ("[  INSTALLER_REBOOTING  ]", OsState.INSTALLING),
    ("[  PENDING  ]", OsState.UNKNOWN)])
def test_bcm(tmp_path: Path, status: str, state: OsState, monkeypatch: pytest.MonkeyPatch) -> None:
    report, installed = asked(tmp_path, "BCM", {"cmsh": f"n1 ............. {status}\n"}, monkeypatch)
    assert (report.state, installed) == (state, "")


def test_bcm_installs_a_machine_that_is_down_only_where_it_was_set_to(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(
        tmp_path / "cmsh",
        "#!/bin/sh\ncase $2 in *nextinstallmode) echo FULL ;; *) echo 'n1 .. [  DOWN  ]' ;; esac\n")
    executable(tmp_path / "os", EXAMPLES["BCM"])
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert ByCommand((str(tmp_path / "os"),), 20,
                     drives_power=False).state(Node("n1")).state is OsState.PLANNED
