"""`muster.pyz run`: checks this machine once, judges if Python is new enough, and stores the result;
`exporter` serves it; `gate` tells whether this node may start a job. Python 3.8.

Only the standard library and modules for Python 3.8, until this Python is known to be newer.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from healthcheck.agent import quick, recorder
from healthcheck.agent.inside import inside
from healthcheck.agent.keep import Busy, StateFolder, Unkept, whole
from healthcheck.agent.unjudged import unjudged
from healthcheck.model.places import METRICS, PERIOD_S, RECORDING, RESULT, SCHEMA, STATE
from inventory.errors import MusterError

JUDGES = (3, 10)
# slurmd ends a HealthCheckProgram that takes longer than 60 s (slurm.conf(5));
# newer ones register only once it has exited with 0.
LIMIT_S = 50.0
_FETCH_S = 15.0
COLLECTOR, NVML = "collector.txt", "nvml.bin"
OK, FAILED, USAGE, UNKNOWN = 0, 1, 2, 3


class Installed:
    """What is installed here: two documents, the collector's source,
    and the NVML reader if the head had one."""

    def __init__(
        self, rules: dict[str, Any], node: dict[str, Any], collector: bytes, nvml: bytes,
        archive: Path | None = None,
    ) -> None:
        self.rules = rules
        self.node = node
        self.collector = collector
        self.nvml = nvml
        self.archive = archive


def main(words: list[str], installed: Callable[[str], Installed]) -> int:
    """The command; `installed` reads the installation in a folder, "" for that of the code.
    Returns the exit code."""
    if words[:1] == ["exporter"]:
        return _exporter(words[1:])
    if words[:1] == ["gate"]:
        from healthcheck.gate.onnode import main as gate

        return gate(words[1:])
    options = _options(words)
    quiet = OK if options.slurm else UNKNOWN
    os.umask(0o077)
    _bound(quiet, options)
    code = _looked(options, installed, quiet)
    _fetched(options)
    return code


def _looked(options: argparse.Namespace, installed: Callable[[str], Installed], quiet: int) -> int:
    try:
        return OK if (code := _run(options, installed)) and options.slurm else code
    except Busy as error:
        _say(options, f"another run is active (pid {error}), so nothing was checked")
        return quiet
    except Unkept as error:
        _say(options, str(error))
    except MusterError:
        raise
    except Exception as error:  # noqa: BLE001  (slurmd would keep the node from jobs until this exits with 0)
        _say(options, f"this installation cannot be used ({type(error).__name__}: {str(error)[:200]}); "
                      "install the agent again")
    return OK if options.slurm else UNKNOWN if options.nagios else USAGE


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="muster.pyz", description="Check this machine and keep the result.",
        epilog=f"Example: python3 muster.pyz run --nagios. The newest result is {STATE}/{RESULT}. Exit: 0 "
        "fine, 1 something failed, 2 usage, 3 something unknown.")
    parser.add_argument("command", choices=("run", "exporter", "gate"),
                        help="run: check once; exporter: serve the result to Prometheus; gate: whether this "
                             "node may start a job")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--nagios", action="store_true",
                      help="one line with numbers; exit 0 1 2 3 in Nagios' sense")
    form.add_argument("--slurm", action="store_true",
                      help="for HealthCheckProgram: exit 0 always; only the head's triage drains")
    parser.add_argument("--profile", metavar="NAME", help="the profile of rules [timer]")
    parser.add_argument("--textfile", metavar="DIR", help="node_exporter's folder for text files")
    parser.add_argument("--state", metavar="DIR", default=STATE,
                        help="where recording and result are kept [%(default)s]")
    parser.add_argument("--bundle", metavar="DIR", default="",
                        help="where rules.json and node.json are [beside muster.pyz]")
    parser.add_argument("--enter", metavar="PID", type=int, default=0,
                        help="check the machine from the namespaces of this process: 1 in a container that "
                             "sees the host's processes")
    parser.add_argument("--root", metavar="DIR", default="", help="check this tree instead of /, for tests")
    options = parser.parse_args(words)
    if options.root and not Path(options.root).is_dir():
        parser.error(f"--root {options.root}: no such folder")
    return options


def _exporter(words: list[str]) -> int:
    if sys.version_info < JUDGES:
        print("muster: the exporter needs Python {}.{} or newer; run --textfile writes for node_exporter "  # noqa: T201
              "with this one".format(*JUDGES),
              file=sys.stderr)
        return USAGE
    from healthcheck.agent.exporting import main as exporting

    return exporting(words)


def _say(options: argparse.Namespace, text: str) -> None:
    if options.nagios:
        print("MUSTER UNKNOWN - " + text.replace("|", "/"))  # noqa: T201
    else:
        print("muster: " + text, file=sys.stderr)  # noqa: T201


def _bound(code: int, options: argparse.Namespace) -> None:
    """Ends the process at its limit, whatever hangs. Earlier results stay."""

    def late(number: int, frame: object) -> NoReturn:
        _say(options, f"the run took longer than {LIMIT_S:g} s and was stopped")
        sys.stdout.flush()
        os._exit(code)

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)


def _run(options: argparse.Namespace, installed: Callable[[str], Installed]) -> int:
    state = StateFolder(Path(options.state))
    found = installed(options.bundle)
    occasion = found.node.get("occasion", "timer") if options.profile is None else options.profile
    own = found.node["node"].get("profile") or ""
    if f"{own}/{occasion}" not in found.rules["sets"]:
        known = sorted(name.partition("/")[2] for name in found.rules["sets"] if name.startswith(f"{own}/"))
        _say(options, f"no such profile: {occasion!a}; there are {', '.join(filter(None, known))}")
        return UNKNOWN if options.nagios else USAGE
    began = time.time()
    look = _look(found, found.rules["sets"][f"{own}/{occasion}"], options)
    result = {
        "schema": SCHEMA, "node": found.node["node"]["name"], "time": look.received,
        "period": found.node.get("period", PERIOD_S), "profile": occasion,
        "bundle": found.node.get("bundle", ""), "rules": found.rules["digest"],
        "version": found.node.get("version", ""), "python": "{}.{}.{}".format(*sys.version_info[:3]),
        # The time since boot shows a later reader whether the node booted or its clock was set since.
        "uptime": time.clock_gettime(time.CLOCK_BOOTTIME) - (time.time() - look.received),
        "words": found.node["node"],
    }
    if sys.version_info >= JUDGES:
        if found.archive is not None:
            quick.use(found.archive, state.path)
        from healthcheck.agent.judging import judged

        said = judged(found, look, result, state, began)
    else:
        said = unjudged(look, result, state, began)
    state.put_json(RECORDING, said.look)
    said.remember()
    # Counters continue after a run that could not be judged.
    state.put_json(RESULT, {"kept": (state.result() or {}).get("kept"), **said.result})
    if options.textfile:
        whole(Path(options.textfile) / METRICS, said.metrics.encode(), 0o644)
    print(said.nagios if options.nagios else said.line)  # noqa: T201
    code: int = said.result["nagios" if options.nagios else "code"]
    return code


def _fetched(options: argparse.Namespace) -> None:
    """Fetches the gate's snapshot, if configured; a failure does not affect the run."""
    left = signal.setitimer(signal.ITIMER_REAL, 0)[0]
    sys.stdout.flush()
    try:
        from healthcheck.gate.fetch import SOURCE, fetch, source_in
        from healthcheck.gate.snapshot import FOLDER, TRUSTED

        source = source_in(options.root + SOURCE)
        if source is None or left < 1:
            return
        signal.signal(signal.SIGALRM, _slow)
        signal.setitimer(signal.ITIMER_REAL, min(left, _FETCH_S))
        fetch(source, options.root + FOLDER, options.root + TRUSTED)
    except Exception as error:  # noqa: BLE001  (a missing or bad head must not fail the run)
        print(f"muster: the gate's snapshot: {str(error)[:300]}", file=sys.stderr)  # noqa: T201
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _slow(number: int, frame: object) -> NoReturn:
    raise TimeoutError(f"it took longer than {_FETCH_S:g} s")


def _look(found: Installed, probes: dict[str, Any], options: argparse.Namespace) -> recorder.CollectorReply:
    asked = dict(probes, schema="muster.probes/1",
                 probes=[found.rules["probes"][probe] for probe in probes["probes"]])
    # Leave time to judge and to write.
    asked["seconds"] = min(probes["seconds"], LIMIT_S - recorder.SLACK_S - 10.0)
    words = [f"without={pattern}" for pattern in found.node["node"].get("unread", ())]
    source = inside(found.collector, options.enter) if options.enter else found.collector
    return recorder.look(source, asked, {"nvml": found.nvml} if found.nvml else {}, words, options.root)


def beside(archive: Path, read: Callable[[str], bytes]) -> Callable[[str], Installed]:
    """Reads the installation beside this code's zip file; `read` gives one of its members."""

    def installed(folder: str) -> Installed:
        place = Path(folder) if folder else archive.resolve().parent
        rules, node = (json.loads((place / name).read_bytes()) for name in ("rules.json", "node.json"))
        return Installed(rules, dict(node, bundle=node.get("bundle") or place.name), read(COLLECTOR),
                         read(NVML), archive.resolve())

    return installed
