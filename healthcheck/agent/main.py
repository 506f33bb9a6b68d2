"""`muster.pyz run`: checks this machine once, judges if Python is new enough, and stores the result;
`exporter` serves it; `gate` tells whether this node may start a job. Python 3.8.

Only the standard library and modules for Python 3.8, until this Python is known to be newer.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from healthcheck.agent import output, quick, recorder
from healthcheck.agent.inside import inside
from healthcheck.agent.keep import Busy, StateFolder, Unkept, note, unkept, whole
from healthcheck.agent.unjudged import unjudged, writable
from healthcheck.model.agentfault import GATE, STATE_FOLDER, TEXTFILE, encode, note_of
from healthcheck.model.places import METRICS, PERIOD_S, RECORDING, RESULT, SCHEMA, SNAPSHOTS, STATE
from inventory.errors import MusterError
from inventory.text import fit

JUDGES = (3, 10)
# slurmd ends a HealthCheckProgram that takes longer than 60 s (slurm.conf(5));
# newer ones register only once it has exited with 0.
LIMIT_S = 50.0
_STORING_S = 5.0
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
    if isinstance(sys.stdout, io.TextIOWrapper):    # cron's locale may lack a character of a tool's message
        sys.stdout.reconfigure(errors="backslashreplace")
    limit = _Limit(quiet, options)
    faults: dict[str, str] = {}
    try:
        code = _looked(options, installed, limit, faults)
    except Busy as error:
        _say(options, f"another run is active (pid {error}), so nothing was checked")
        return quiet
    _note(options, faults)
    _fetched(options, faults)
    if GATE in faults:
        _note(options, faults)
    return code


def _looked(
    options: argparse.Namespace, installed: Callable[[str], Installed], limit: _Limit, faults: dict[str, str],
) -> int:
    """The run's exit code; `faults` gets what could not be written, by place. Raises Busy."""
    try:
        return OK if (code := _run(options, installed, limit, faults)) and options.slurm else code
    except (Busy, MusterError):
        raise
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            _say(options, f"{error.filename}: {error.strerror}; install the agent again")
        elif error.filename:
            _say(options, str(unkept(Path(os.fsdecode(error.filename)), error, "read")))
        else:
            _say(options, f"the run failed: {error.strerror or error}; see: journalctl -k -n 50")
    except Exception as error:  # noqa: BLE001  (slurmd would keep the node from jobs until this exits with 0)
        _say(options, f"this installation cannot be used ({type(error).__name__}: {str(error)[:200]}); "
                      "install the agent again")
    return OK if options.slurm else UNKNOWN if options.nagios else USAGE


def _note(options: argparse.Namespace, faults: dict[str, str]) -> None:
    note(note_of(options.state), encode(faults, time.time()) if faults else None)


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
        print(output.unknown(text))  # noqa: T201
    else:
        print(fit([text], output.LINE, "muster: "), file=sys.stderr)  # noqa: T201


class _Limit:
    """Ends the process at its limit, whatever hangs. `keep` stores a result with the reason; until it is set,
    and once the run's own result is stored, results stay as they are."""

    def __init__(self, code: int, options: argparse.Namespace) -> None:
        self.keep: Callable[[str], None] | None = None
        self._code = code
        self._options = options
        signal.signal(signal.SIGALRM, self._late)
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)

    def _late(self, number: int, frame: object) -> NoReturn:
        reason = f"the run took longer than {LIMIT_S:g} s and was stopped"
        signal.signal(signal.SIGALRM, lambda *_: os._exit(self._code))      # the state's disk may hang, too
        signal.setitimer(signal.ITIMER_REAL, _STORING_S)
        try:
            if self.keep is not None:
                self.keep(reason)
        except Exception as error:  # noqa: BLE001  (it ends here, stored or not)
            reason = f"{reason}; {error}"
        _say(self._options, reason)
        sys.stdout.flush()
        os._exit(self._code)


def _run(
    options: argparse.Namespace, installed: Callable[[str], Installed], limit: _Limit, faults: dict[str, str],
) -> int:
    state = StateFolder(Path(options.state))
    found = installed(options.bundle)
    occasion = found.node.get("occasion", "timer") if options.profile is None else options.profile
    own = found.node["node"].get("profile") or ""
    if f"{own}/{occasion}" not in found.rules["sets"]:
        known = sorted(name.partition("/")[2] for name in found.rules["sets"] if name.startswith(f"{own}/"))
        _say(options, f"no such profile: {occasion!a}; there are {', '.join(filter(None, known))}")
        return UNKNOWN if options.nagios else USAGE
    began = time.time()

    def head(received: float) -> dict[str, Any]:
        return {
            "schema": SCHEMA, "node": found.node["node"]["name"], "time": received,
            "period": found.node.get("period", PERIOD_S), "profile": occasion,
            "bundle": found.node.get("bundle", ""), "rules": found.rules["digest"],
            "version": found.node.get("version", ""), "python": "{}.{}.{}".format(*sys.version_info[:3]),
            # The time since boot shows a later reader whether the node booted or its clock was set since.
            "uptime": time.clock_gettime(time.CLOCK_BOOTTIME) - (time.time() - received),
            "words": found.node["node"],
        }

    def stopped(reason: str) -> None:
        late = recorder.CollectorReply(time.time(), b"", "deadline", reason)
        _store(options, state, unjudged(late, head(late.received), state, began), faults)
        _note(options, faults)
        if faults:
            raise Unkept("; ".join(faults.values()))

    limit.keep = stopped
    look = _look(found, found.rules["sets"][f"{own}/{occasion}"], options)
    result = head(look.received)
    if sys.version_info >= JUDGES:
        if found.archive is not None and state.trusted:
            quick.use(found.archive, state.path)
        from healthcheck.agent.judging import judged

        said = judged(found, look, result, state, began)
    else:
        said = unjudged(look, result, state, began)
    _store(options, state, said, faults)
    limit.keep = None
    code: int = said.result["nagios" if options.nagios else "code"]
    if not faults:
        print(said.nagios if options.nagios else said.line)  # noqa: T201
        return code
    if options.nagios:
        line, code = output.with_faults(said.nagios, code, list(faults.values()))
        print(line)  # noqa: T201
        return code
    print(said.line)  # noqa: T201
    for fault in faults.values():
        _say(options, fault)
    return USAGE


def _store(
    options: argparse.Namespace, state: StateFolder, said: output.AgentOutput, faults: dict[str, str],
) -> None:
    """Writes what a run leaves; what could not be written is among `faults`."""
    try:
        state.put_json(RECORDING, said.snapshot)
        _remember(said.remember, state)
        # Counters continue after a run that could not be judged.
        state.put_json(RESULT, {"kept": (state.result() or {}).get("kept"), **said.result})
    except Unkept as error:
        faults[STATE_FOLDER] = str(error)
    if options.textfile:
        text = writable(said.result["node"], STATE_FOLDER not in faults) + said.metrics
        try:
            whole(Path(options.textfile) / METRICS, text.encode(), 0o644)
        except Unkept as error:
            faults[TEXTFILE] = str(error)


def _remember(remember: Callable[[], None], state: StateFolder) -> None:
    """Raises Unkept."""
    try:
        remember()
    except OSError as error:
        raise unkept(state.path / SNAPSHOTS, error) from None


def _fetched(options: argparse.Namespace, faults: dict[str, str]) -> None:
    """Fetches the gate's snapshot, if configured; a failure does not affect the run, and is among `faults`
    where its folder cannot be written."""
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
    except TimeoutError as error:
        print(f"muster: the gate's snapshot: {error}", file=sys.stderr)  # noqa: T201
    except OSError as error:
        faults[GATE] = str(unkept(Path(os.fsdecode(error.filename or options.root + FOLDER)), error))
        print(f"muster: the gate's snapshot: {faults[GATE]}", file=sys.stderr)  # noqa: T201
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
