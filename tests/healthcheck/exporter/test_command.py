"""`muster exporter` as a user starts it: what it prints, what it refuses, how it sweeps, and how it ends."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import bcrypt
import pytest

from tests.command import MUSTER, environment, muster
from tests.healthcheck import machine
from tests.testbed.exporting import Exporting, exporting, swept
from tests.testbed.ports import free_port
from tests.testbed.processes import alive
from tests.testbed.sshd import wait_until


def page(exporter: Exporting) -> str:
    with urllib.request.urlopen(f"{exporter.url}/metrics", timeout=30) as answer:  # noqa: S310  (our own)
        return str(answer.read().decode())


def inventory(home: Path, **nodes: str) -> None:
    """A file of nodes, each with what stands in its braces."""
    (home / "muster.yaml").write_text(
        "version: 1\nnodes:\n" + "".join(f"  {name}: {{{rest}}}\n" for name, rest in nodes.items()))


def test_the_page_is_printed_once_for_a_textfile_collector(tmp_path: Path) -> None:
    inventory(tmp_path, gpu001="sku: hgx-h100", gpu002="")
    swept(tmp_path / "state", machine.recording("gpu001"))
    done = muster("exporter", "--once", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'muster_node_state{node="gpu001",state="healthy"} 1.0' in done.stdout
    assert ('muster_node_state{node="gpu002",state="unknown"} 1.0' in done.stdout
            and done.stdout.endswith("\n"))


def test_the_status_page_is_at_the_root_with_a_policy_and_behind_the_same_logins(tmp_path: Path) -> None:
    inventory(tmp_path, gpu001="sku: hgx-h100", gpu002="")
    swept(tmp_path / "state", machine.recording("gpu001"))
    password = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  ada: {password}\n")
    with exporting(tmp_path, "--web-config", str(tmp_path / "web.yml")) as exporter:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{exporter.url}/", timeout=30)  # noqa: S310  (our own)
        login = {"Authorization": f"Basic {base64.b64encode(b'ada:secret').decode()}"}
        asked = urllib.request.Request(f"{exporter.url}/", headers=login)  # noqa: S310  (our own)
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310  (our own)
            policy, text = answer.headers["Content-Security-Policy"], answer.read().decode()
    assert text.startswith("<!doctype html>") and '"node":"gpu001"' in text
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy


def test_how_old_a_result_may_be_is_for_the_user_to_say(tmp_path: Path) -> None:
    inventory(tmp_path, gpu001="")
    swept(tmp_path / "state", machine.recording("gpu001"), ago=1000)
    for span, state in (("2000s", "healthy"), ("15m", "unknown")):
        assert f'muster_node_state{{node="gpu001",state="{state}"}} 1.0' in muster(
            "exporter", "--once", "--stale", span, home=tmp_path).stdout


def test_a_result_counts_by_default_until_the_sweep_an_hour_later_is_stored(tmp_path: Path) -> None:
    inventory(tmp_path, gpu001="")
    for minutes, state in ((100, "unknown"), (80, "healthy")):
        swept(tmp_path / "state", machine.recording("gpu001"), ago=60 * minutes)
        assert f'muster_node_state{{node="gpu001",state="{state}"}} 1.0' in muster(
            "exporter", "--once", home=tmp_path).stdout


def test_without_a_store_every_node_is_unknown_and_it_serves_all_the_same(tmp_path: Path) -> None:
    inventory(tmp_path, gpu001="")
    with exporting(tmp_path) as exporter:
        text = page(exporter)
        assert 'state="unknown"} 1.0' in text and "muster_source_up 0.0" in text
        swept(tmp_path / "state", machine.recording("gpu001"))
        wait_until(lambda: "muster_source_up 1.0" in page(exporter), 30, "the store")


@pytest.mark.parametrize(("words", "said"), [
    (("--listen", "9847"), "expected HOST:PORT"), (("--listen", ":9847"), "names no host"),
    (("--listen", "localhost:99999"), "expected HOST:PORT"),
    (("--listen", "192.0.2.7:9847"), "--listen 192.0.2.7:9847:"), (("--every", "5m"), "none was found"),
    (("--http-sd", "9100"), "none was found"), (("--tls-cert", "x"), "a certificate and its key"),
    (("--tls-cert", "x", "--tls-key", "y"), "are not a certificate and its key"),
    (("--web-config", "no.yml"), "no.yml: no such file"),
    (("--rules", "."), "for the sweeps of --every"), (("--stale", "soon"), "not a time span"),
    (("-i", "no.yaml"), "no such file"),
])
def test_what_cannot_be_is_refused_in_a_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = muster("exporter", *words, home=tmp_path)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr and not done.stdout


def test_a_port_that_is_taken_is_reported(tmp_path: Path) -> None:
    inventory(tmp_path, gpu001="")
    with exporting(tmp_path) as exporter:
        done = muster("exporter", "--listen", exporter.address, home=tmp_path)
        assert done.returncode == 2 and "Address already in use" in done.stderr


def test_beyond_this_machine_it_says_that_it_is_in_the_clear(tmp_path: Path) -> None:
    inventory(tmp_path, gpu001="")
    with exporting(tmp_path, "--listen", f"0.0.0.0:{free_port()}") as exporter:
        assert "without TLS" in exporter.log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_service_manager_ends_it_and_that_is_no_failure(tmp_path: Path, number: signal.Signals) -> None:
    inventory(tmp_path, gpu001="")
    with exporting(tmp_path) as exporter:
        exporter.process.send_signal(number)
        assert exporter.process.wait(30) == 0
        log = exporter.log.read_text()
        assert "Traceback" not in log and "without TLS" not in log      # this machine alone reaches it


def sweeps(exporter: Exporting) -> list[int]:
    """The processes of `muster check` below it."""
    found = []
    for path in Path(f"/proc/{exporter.process.pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):      # that thread has ended
            found += [int(pid) for pid in path.read_text().split()]
    return found


def test_it_sweeps_itself_and_what_it_found_is_on_the_page(tmp_path: Path) -> None:
    # No one listens there: that is a result, too.
    inventory(tmp_path, gpu001=f"address: 127.0.0.1, port: {free_port()}")
    with exporting(tmp_path, "--every", "10s") as exporter:
        wait_until(lambda: "muster_sweeps_total 1.0" in page(exporter), 60, "a sweep")
        text = page(exporter)
        assert ('muster_node_stale{node="gpu001"} 0.0' in text
                and 'muster_node_state{node="gpu001",state="unknown"} 1.0' in text)
        assert "muster_exporter_sweeper_up 1.0" in text and "muster_stale_after_seconds 30.0" in text
        (child,) = sweeps(exporter)
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: "muster_exporter_sweeper_starts_total 2.0" in page(exporter), 60,
                   "that it is started again")
        wait_until(lambda: sweeps(exporter), 30, "the next")
        (child,) = sweeps(exporter)
        exporter.process.terminate()
        exporter.process.wait(40)
        assert not alive(child)


def test_sweeps_run_nothing_of_the_working_folder_and_end_with_the_exporter_however_that_ends(
    tmp_path: Path,
) -> None:
    inventory(tmp_path, gpu001=f"address: 127.0.0.1, port: {free_port()}")
    for name in ("ctypes", "healthcheck", "signal"):
        (tmp_path / f"{name}.py").write_text("open('was-run', 'w').close()\nraise SystemExit(9)\n")
    with exporting(tmp_path, "--every", "10s") as exporter:
        wait_until(lambda: "muster_sweeps_total 1.0" in page(exporter), 60, "a sweep")
        assert not (tmp_path / "was-run").exists()
        (child,) = sweeps(exporter)
        exporter.process.kill()
        wait_until(lambda: not alive(child), 40, "that the sweeps end")


def test_help_teaches_with_an_example() -> None:
    done = subprocess.run([str(MUSTER), "exporter", "--help"], env=environment(Path("/")), text=True,
                          capture_output=True, timeout=60, check=True)
    assert "muster exporter --every 5m" in done.stdout and "scrape_configs" in done.stdout
