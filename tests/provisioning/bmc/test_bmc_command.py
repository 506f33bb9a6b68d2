"""`muster bmc`: certificates are pinned on purpose, changes are dry until told, no job is hit."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from healthcheck.store import ledger
from healthcheck.store.file import opened
from healthcheck.store.history import seats
from tests.command import muster
from tests.testbed.bmcs import Bed, Machine, Wrong, rack, require_rack

MACHINES = (Machine("gpu001"), Machine("gpu002", on=True, expands=True),
            Machine("gpu003", wrong=Wrong.PSU_FAILED), Machine("gpu004", wrong=Wrong.PASSWORD),
            Machine("gpu005", wrong=Wrong.NO_ONE), Machine("gpu006", wrong=Wrong.LOSES_ANSWERS))
PASSWORD = "calvin-0penSesame"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    require_rack()
    with rack(tmp_path_factory.mktemp("rack") / "bed", MACHINES, password=PASSWORD) as found:
        yield found


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bmc(bed: Bed, tmp_path: Path) -> Command:
    """Runs it where a list has all fingerprints but gpu005's; nodes are in bring-up or `lifecycle`."""
    (tmp_path / "delivered").write_text(
        "".join(f"{name} {shown}\n" for name, shown in bed.fingerprints.items() if name != "elsewhere"))
    hosts = tmp_path / "bad-hosts"
    hosts.touch()

    def run(*words: str, lifecycle: str = "bringup", cordon: str = "") -> subprocess.CompletedProcess[str]:
        entries = "".join(f"  {one.name}: {{bmc: {bed.entry(one.name)}}}\n" for one in MACHINES)
        (tmp_path / "muster.yaml").write_text(
            f"version: 1\n{cordon}defaults: {{lifecycle: {lifecycle}}}\nnodes:\n{entries}  gpu009:\n")
        done = muster("bmc", *words, home=tmp_path, BMC_PASSWORD=PASSWORD)
        assert PASSWORD not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def enrolled(bmc: Command) -> None:
    # gpu005 is not reached
    assert bmc("enroll", "gpu[001-006]", "--fingerprints", "delivered").returncode == 3


def test_no_one_is_asked_before_the_certificate_is_pinned(bmc: Command) -> None:
    done = bmc("show", "gpu001")
    assert (done.stdout == ("gpu001  ? certificate: no certificate of gpu001's controller is pinned; look at "
                            "it and pin it: muster bmc enroll gpu001\n"))
    assert done.returncode == 3


@pytest.mark.parametrize("words", [("show",), ("log",), ("check",)])
def test_what_is_said_of_many_controllers_is_one_line_with_one_command(bmc: Command,
                                                                       words: tuple[str, ...]) -> None:
    done = bmc(*words, "gpu[001-006]")
    (line,) = done.stdout.splitlines()
    assert line.startswith("gpu[001-006]  ") and line.endswith("pin it: muster bmc enroll 'gpu[001-006]'")


def test_certificates_are_compared_with_a_list_or_approved_and_a_change_is_refused_until_told(
    bmc: Command, bed: Bed, tmp_path: Path,
) -> None:
    result = bmc("enroll", "gpu001")
    assert (result.returncode, "there is no terminal to confirm" in result.stderr) == (2, True)
    listed = bmc("enroll", "gpu[001-006]", "--fingerprints", "delivered")
    assert (listed.stdout.splitlines()[:2]
            == ["pinned           5  gpu[001-004,006]", "not reached      1  gpu005"])
    assert bmc("enroll", "gpu001").stdout == "known      1  gpu001\n"
    pins = tmp_path / "state" / "bmc-pins.json"
    pins.write_text(pins.read_text().replace(bed.fingerprints["gpu001"], "0" * 64))
    changed = bmc("enroll", "gpu[001-002]", "--yes")
    assert changed.returncode == 1
    assert "if it was changed on purpose: muster bmc enroll gpu001 --replace gpu001" in changed.stdout
    assert "certificate" in bmc("show", "gpu001").stdout
    assert bmc(
        "enroll", "gpu001", "--replace", "gpu001", "--yes").stdout.startswith("replaced      1  gpu001\n")
    assert bmc("show", "gpu001").returncode == 0
    wrong = tmp_path / "wrong"
    wrong.write_text(f"gpu002 {'1' * 64}\n")
    assert bmc("enroll", "gpu[002-003]", "--fingerprints", str(wrong)).returncode == 1
    document = json.loads(bmc("enroll", "gpu001", "--json").stdout)
    assert (document["schema"], document["nodes"][0]["outcome"]) == ("muster.bmc/1", "known")


def test_each_machine_is_a_line_and_one_that_does_not_answer_says_why(bmc: Command) -> None:
    enrolled(bmc)
    done = bmc("show", "gpu[001-005]", "--timeout", "5")
    lines = dict(line.split("  ", 1) for line in sorted(done.stdout.splitlines()))
    assert lines["gpu002"].startswith("on  Contoso GX8  serial SN")
    assert lines["gpu004"].startswith("? credentials: it refuses the user or the password")
    assert lines["gpu005"].startswith("? certificate: ")
    assert done.returncode == 3
    document = json.loads(bmc("show", "gpu[001-005]", "--json").stdout)
    assert [one["node"] for one in document["nodes"]] == [f"gpu00{at}" for at in range(1, 6)]
    assert document["nodes"][1]["power"] == "on"
    assert document["nodes"][1]["identity"]["name"] == {"unmeasured": "it does not say"}
    assert document["nodes"][3]["error"]["wrong"] == "credentials"


@pytest.mark.parametrize(
    ("words", "line"),
    [(("hardware", "gpu001"), "  gpu       8  8 x NVIDIA H100 80GB HBM3"),
     (("firmware", "gpu001"), "  BIOS  2.1.5"), (("bios", "gpu001"), "  SriovGlobalEnable = Enabled"),
     (("sensors", "gpu002"), "  Inlet Temp         ok    24 degrees C"),
     (("log", "gpu001"), "  no active event"), (("media", "gpu001", "show"), "  Cd  CD/DVD  empty")])
def test_what_a_controller_tells_is_printed(bmc: Command, words: tuple[str, ...], line: str) -> None:
    enrolled(bmc)
    done = bmc(*words)
    assert done.stdout.splitlines()[0] == f"{words[1]}:"
    assert line in done.stdout.splitlines()
    assert done.returncode == 0


def test_parts_that_no_sweep_reads_are_kept_by_their_numbers(bmc: Command, tmp_path: Path) -> None:
    enrolled(bmc)
    done = bmc("hardware", "gpu001", "--store")
    assert done.returncode == 0 and done.stdout.splitlines()[0] == "gpu001:"
    found = json.loads(bmc("hardware", "gpu001", "--json", "--store").stdout)["nodes"][0]["hardware"]["psu"]
    with opened(tmp_path / "state") as store:
        kept = {(seat.slot, seat.serial) for seat in seats(store, ["gpu001"], 0)
                if seat.kind == "psu" and seat.ended is None}
    assert kept == {(f"psu {one['slot']}" if not one["slot"].lower().startswith("psu") else one["slot"],
                     one["serial"]) for one in found} and kept


def test_log_and_sensors_are_judged_by_the_rules_and_only_nodes_in_service_count(bmc: Command) -> None:
    enrolled(bmc)
    done = bmc("check", "gpu[001-004]")
    assert "gpu001  fine  4 rules; not reported: bmc-sel-full" in done.stdout
    assert "gpu003  warning  bmc-power-supply  Power supply" in done.stdout
    assert "gpu003    datacentre: Look at the supply's lamp" in done.stdout
    assert "gpu004  unknown  nothing is judged: credentials" in done.stdout
    assert done.returncode == 0
    assert ([bmc("check", nodes, lifecycle="service").returncode
             for nodes in ("gpu001", "gpu[001,004]", "gpu[001,003-004]")] == [0, 3, 1])
    results = json.loads(bmc("check", "gpu003", "--json").stdout)["nodes"][0]["results"]
    assert [one["status"] for one in results if one["rule"] == "bmc-power-supply"] == ["fail"]


def test_a_change_is_made_as_typed_unless_dry_and_enters_the_ledger(bmc: Command, bed: Bed,
                                                                    tmp_path: Path) -> None:
    enrolled(bmc)
    dry = bmc("power", "gpu[001,006]", "on", "--dry-run")
    assert dry.stdout == "gpu[001,006]: would do: power on. Nothing changed.\n"
    assert bed.counts("gpu001")["on"] == 0
    done = bmc("power", "gpu[001,006]", "on", "--reason", "first light")
    assert "gpu001: power on: accepted\n" in done.stdout
    assert "gpu006: power on: it is not known whether it was done: unreachable: " in done.stdout
    assert "check: muster bmc show gpu006" in done.stdout
    assert (done.returncode, bed.counts("gpu001")["on"]) == (1, 1)
    assert bmc("boot", "gpu001", "pxe").stdout == "gpu001: boot pxe: accepted\n"
    old = bmc("media", "gpu001", "eject", "--apply")
    assert (old.stdout, old.stderr) == ("gpu001: media eject: accepted\n", "muster: --apply is now --yes\n")
    with opened(tmp_path / "state") as store:
        lines = [(one.action, one.node, one.why, (one.outcome or "").partition(":")[0])
                 for one in ledger.lines(store)]
    assert (lines == [("bmc power on", "gpu001", "first light", "accepted"),
                      ("bmc power on", "gpu006", "first light", "it is not known whether it was done"),
                      ("bmc boot pxe", "gpu001", "by hand", "accepted"),
                      ("bmc media eject", "gpu001", "by hand", "accepted")])


def test_what_is_in_service_is_not_touched_unless_we_hold_it_and_no_one_is_turned_off_beside_a_job(
    bmc: Command, bed: Bed, tmp_path: Path,
) -> None:
    enrolled(bmc)
    hostfile = f"cordon: {{hostfile: {tmp_path / 'bad-hosts'}}}\n"
    held = bmc("power", "gpu002", "off", "--yes", lifecycle="service", cordon=hostfile)
    assert (held.stdout
            == "gpu002: not done: it is in service, and we do not hold it; first: muster cordon gpu002 "
               "--reason ...\n")
    assert bmc("boot", "gpu002", "pxe", lifecycle="service", cordon=hostfile).returncode == 1
    unsure = bmc("power", "gpu002", "off", "--yes", lifecycle="maintenance", cordon=hostfile)
    assert "cannot say whether a job is there, and its lifecycle is maintenance" in unsure.stdout
    assert bed.counts("gpu002")["off"] == 0
    allowed = bmc("power", "gpu002", "off", "--dry-run", lifecycle="rma", cordon=hostfile)
    assert (allowed.returncode, "would do: power off" in allowed.stdout) == (0, True)
    for action in ("off", "shutdown"):
        alone = bmc("power", "gpu002", action, lifecycle="rma", cordon=hostfile)
        assert (alone.returncode, alone.stdout, alone.stderr) == (2, "", (
            f"muster: power {action}: gpu002: nothing changed, since there is no terminal to ask on; "
            "--yes does it without asking\n"))
    assert bed.counts("gpu002")["off"] == 0
    assert muster("cordon", "gpu002", "--reason", "x", home=tmp_path).returncode == 0
    assert (bmc("boot", "gpu002", "pxe", lifecycle="service", cordon=hostfile).stdout
            == "gpu002: boot pxe: accepted\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [(("show", "gpu009"), "names no controller for gpu009; add bmc: {address: ADDRESS} there, or"),
     (("show", "gpu1"), "has no node gpu1"),
     (("enroll", "gpu001", "--yes", "--fingerprints", "x"), "--yes and --fingerprints exclude each other"),
     (("enroll", "gpu001", "--replace", "gpu002"), "--replace names gpu002, which is not among gpu001"),
     (("enroll", "gpu001", "--fingerprints", "nowhere"), "nowhere cannot be read"),
     (("media", "gpu001", "insert"), "insert needs an IMAGE"),
     (("media", "gpu001", "eject", "x"), "insert needs an IMAGE"),
     (("media", "gpu001", "insert", "http://me:hunter2@10.1.0.1/a.iso"),
      "muster: the image's address holds a user or a password; serve it"),
     (("media", "gpu001", "insert", "http://[10.1.0.1/a.iso"),
      "muster: the image's address is no http(s) address")])
def test_a_mistake_is_one_line(bmc: Command, words: tuple[str, ...], said: str) -> None:
    done = bmc(*words)
    assert said in done.stderr
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_each_help_teaches_with_an_example(bmc: Command) -> None:
    for command in ("show", "hardware", "firmware", "bios", "log", "sensors", "check", "power", "boot",
                    "media", "enroll"):
        assert f"muster bmc {command} " in bmc(command, "--help").stdout


def test_a_job_that_came_while_the_person_thought_keeps_the_power_on(tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from provisioning.bmc import permission
    from provisioning.cli import bmcchange

    answers = iter([{}, {"gpu001": "job 7 is on it"}])
    monkeypatch.setattr(permission, "why_not", lambda *args, **kept: next(answers))
    monkeypatch.setattr(bmcchange, "confirm", lambda *args, **kept: True)
    (tmp_path
     / "muster.yaml").write_text(
         "version: 1\nnodes: {gpu001: {bmc: {address: 127.0.0.1, port: 1, user: x, tls: verify, password: "
         "{env: P}}}}\n")
    done = CliRunner().invoke(bmcchange.power, ["gpu001", "off", "-i", str(tmp_path / "muster.yaml"),
                                                "--state", str(tmp_path / "state")],
                              standalone_mode=False)
    assert done.output == "gpu001: not done: job 7 is on it\n"
    assert done.return_value == 1 and not (tmp_path / "state").exists()
