"""Which rules of muster look at what a line of an nhc.conf checks, what they do not, and which numbers to
set. The topic other-checkers has the same for every check of NHC."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from healthcheck.explain.nhcconf import NhcLine

_SIZE = re.compile(r"([0-9]{1,15})([kKmMgGtTpPeE]?)[bB]?")
_POWERS = "kmgtpe"
_PERCENT = re.compile(r"([0-9]{1,3})%")


class Cover(Enum):
    """How much of a line muster judges."""

    WHOLE = "covered"
    PART = "in part"
    NONE = "no match"


@dataclass(frozen=True)
class NhcMatch:
    """One line and what covers it. `note` says what is judged in another way, or not at all; `numbers` are
    those of a SKU, `parameters` by rule those to set (lists are added to what the rule has)."""

    line: NhcLine
    cover: Cover
    rules: tuple[str, ...] = ()
    note: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


_OFF = "the rule is off until a site enables it, as --out does"
_Made = tuple[Cover, Sequence[str], str, Mapping[str, Any], Mapping[str, Mapping[str, Any]]]


def match(line: NhcLine) -> NhcMatch:
    """What covers the line. A part that cannot be read counts as not judged."""
    if line.trouble:
        return NhcMatch(line, Cover.NONE, note=line.trouble)
    arguments = line.words[1:]
    if line.name in _READ:
        cover, rules, note, numbers, parameters = _READ[line.name](arguments)
        if any("$" in word for word in arguments):
            cover = Cover.PART if cover is Cover.WHOLE else cover
            note = "; ".join(filter(None, (note, "a value comes from a variable, which is not read")))
        return NhcMatch(line, cover, tuple(rules), note, numbers, parameters)
    if line.name in _PART:
        rules, note = _PART[line.name]
        return NhcMatch(line, Cover.PART, rules, note)
    if line.name in _NONE:
        return NhcMatch(line, Cover.NONE, note=_NONE[line.name])
    return NhcMatch(line, Cover.NONE, note="not one of NHC's own checks; if it is the site's, see muster "
                                           "help adding-a-check")


def _kib(text: str) -> int | None:
    """A size as NHC has it, in KiB; None for what is none."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    power = max(0, _POWERS.find(found[2].lower())) if found[2] else 0
    return int(int(found[1]) * 1024 ** power)


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _percent(text: str) -> int | None:
    found = _PERCENT.fullmatch(text)
    return int(found[1]) if found is not None and int(found[1]) <= 100 else None


def _cpuinfo(words: Sequence[str]) -> _Made:
    threads = _whole(words[2]) if len(words) > 2 else None
    note = "threads are counted, sockets and cores are not"
    return (Cover.PART, ("cpu-count", "cpu-offline"), note if threads else
            f"{note}; no number of threads is given, so set cpu_count yourself",
            {"cpu_count": threads} if threads else {}, {})


def _physmem(words: Sequence[str]) -> _Made:
    least = _kib(words[0]) if words else None
    fudge = _percent(words[2]) if len(words) > 2 else 0
    notes = ["more memory than the maximum is not judged"] if len(words) > 1 else []
    if fudge is None:
        notes.append("the tolerance is not per cent: the rule's own is 3 per cent")
    elif fudge < 3:
        notes.append(f"it allows 3 per cent less, NHC {fudge}: set tolerance_percent where that is too much")
    numbers = {"memory_gib": -(-least // 2**20)} if least else {}
    if not least:
        notes.append("no minimum can be read, so set memory_gib yourself")
    return Cover.PART if notes else Cover.WHOLE, ("host-memory", "host-dimm-count"), "; ".join(
        notes), numbers, {}


def _ib(words: Sequence[str]) -> _Made:
    rate = _whole(words[0]) if words else None
    notes = ["" if rate else "no rate can be read, so it is the SKU's"]
    if len(words) > 1:
        notes.append("ports are named by PCI address in the inventory or the SKU, not by device")
    numbers = {"port_rate_gbps": rate} if rate else {}
    note = "; ".join(filter(None, ("every compute port is judged, NHC wants one", *notes)))
    return (Cover.PART if len(words) > 1 or not rate else Cover.WHOLE,
            ("port-state", "port-rate", "port-count"), note, numbers, {})


def _mount(words: Sequence[str], how: str) -> _Made:
    points, rest, options = [], [], set()
    queue = list(words)
    if queue and queue[0].startswith("/"):
        points, rest = [queue[0]], queue[1:]        # NHC's old form: mount point, source, type, options
        options |= {"-s"} if rest else set()
    else:
        while queue:
            word = queue.pop(0)
            if word == "--":
                points += queue
                break
            letter, value = word[:2], word[2:]
            if not word.startswith("-") or len(word) < 2:
                points += [word, *queue]
                break
            options.add(letter)
            if letter in ("-f", "-F", "-s", "-t", "-o", "-O", "-e", "-E") and not value and queue:
                value = queue.pop(0)
            if letter in ("-f", "-F"):
                points.append(value)
    points = [point for point in points if point.startswith("/") and "$" not in point]
    notes = []
    if options & {"-s", "-t", "-o"}:
        notes.append("source, type and options of the mount are not judged")
    if options & {"-r", "-e", "-E"}:
        notes.append("muster mounts nothing and runs no command")
    if how == "ro":
        notes.append("that it is read-only is not judged")
    if not points:
        return Cover.NONE, (), "no mount point can be read", {}, {}
    parameters: dict[str, dict[str, Any]] = {"filesystem-expected": {"expected": points}}
    rules = ["filesystem-expected"]
    if how == "rw":
        rules.append("filesystem-read-only")
        parameters["filesystem-read-only"] = {"writable": points}
        notes.append("writable is judged by the file system, not by the mount's own option ro, and for local "
                     "types only")
    return Cover.PART if notes else Cover.WHOLE, rules, "; ".join(notes), {}, parameters


def _space(words: Sequence[str], rule: str, *, free: bool) -> _Made:
    """One limit is for all file systems; only a stricter one than the rule's own is to be set."""
    notes = ["one limit is for all file systems of local types, not of network ones"]
    share = _percent(words[1]) if len(words) > 1 else None
    if share is None:
        notes.append("the amount is none in per cent, so the rule's own share is judged instead")
        return Cover.PART, (rule,), "; ".join(notes), {}, {}
    most = 100 - share if free else share - 1       # NHC fails at the limit itself
    return Cover.PART, (rule,), "; ".join(notes), {}, {rule: {"at_most_percent": max(most, 0)}}


def _service(words: Sequence[str]) -> _Made:
    name, options, queue = "", set(), list(words)
    while queue:
        word = queue.pop(0)
        if word.startswith("-") and len(word) > 1:
            letters = word[1:]
            at = next((at for at, letter in enumerate(letters) if letter in "Edemu"), None)
            options |= set(letters if at is None else letters[:at + 1])
            if at is not None and at == len(letters) - 1 and queue:
                queue.pop(0)
        else:
            name = word
            break
    if options & set("skE"):
        return Cover.NONE, (), "no rule asks that a service is not there", {}, {}
    return _unit(name, "muster restarts nothing" if options & set("Srce") else "")


def _unit(name: str, more: str = "") -> _Made:
    if not re.fullmatch(r"[A-Za-z0-9@._:-]{1,100}", name):
        return Cover.NONE, (), "no name of a service can be read", {}, {}
    note = f"by the systemd unit of this name, which may have another; its owner is not judged; {_OFF}"
    return (Cover.PART, ("service-expected", "service-failed"), "; ".join(filter(None, (note, more))), {},
            {"service-expected": {"names": [name]}})


def _daemon(words: Sequence[str]) -> _Made:
    return _unit(words[0] if words else "")


def _dmi(words: Sequence[str]) -> _Made:
    found = re.fullmatch(r"BIOS Information: Version: ([A-Za-z0-9. _-]{1,60})", words[-1] if words else "")
    if found:
        return Cover.WHOLE, ("host-bios",), _OFF, {}, {"host-bios": {"versions": [found[1]]}}
    return (Cover.PART, ("fleet-bios", "fleet-product", "host-dimm-alike"),
            "nodes are compared with their equals; this text itself is not asked for", {}, {})


def _gpu_count(words: Sequence[str]) -> _Made:
    count = _whole(words[0]) if words else None
    return (Cover.WHOLE if count else Cover.PART, ("gpu-count",),
            "" if count else "no number can be read, so it is the SKU's",
            {"gpu_count": count} if count else {}, {})


def _nvidia(words: Sequence[str]) -> _Made:
    return (Cover.PART, ("driver-loads", "driver-answers", "gpu-answers"),
            "by what NVML and nvidia-smi answer, not by an exit code: what only that reports, such as a "
            "corrupted InfoROM, is not judged", {}, {})


_READ: Mapping[str, Callable[[Sequence[str]], _Made]] = {
    "check_hw_cpuinfo": _cpuinfo, "check_hw_physmem": _physmem, "check_hw_ib": _ib,
    "check_fs_mount": lambda words: _mount(words, ""), "check_fs_mount_rw": lambda words: _mount(words, "rw"),
    "check_fs_mount_ro": lambda words: _mount(words, "ro"),
    "check_fs_free": lambda words: _space(words, "filesystem-space", free=True),
    "check_fs_used": lambda words: _space(words, "filesystem-space", free=False),
    "check_fs_ifree": lambda words: _space(words, "filesystem-inodes", free=True),
    "check_fs_iused": lambda words: _space(words, "filesystem-inodes", free=False),
    "check_ps_service": _service, "check_ps_daemon": _daemon, "check_dmi_data_match": _dmi,
    "check_dmi_raw_data_match": _dmi, "check_gpu_count": _gpu_count, "check_nv_healthmon": _nvidia,
    "check_nvsmi_healthmon": _nvidia,
}
_SHARE = "a share of memory is judged, not this amount"
_JOBS = "what is left of jobs is found; no process is ended"
_PART: Mapping[str, tuple[tuple[str, ...], str]] = {
    "check_hw_mem": (("host-memory",), "memory is judged without swap, by memory_gib of the SKU"),
    "check_hw_physmem_free": (("memory-available",), _SHARE),
    "check_hw_mem_free": (("memory-available",), f"{_SHARE}, and without swap"),
    "check_hw_eth": (("netdev-link", "fleet-netdev-state"),
                     "each interface that is up is to have a link; one that is not there is found only "
                     "beside equal nodes"),
    "check_hw_mcelog": (("kernel-hardware-error", "kernel-hardware-corrected", "memory-ecc-uncorrected",
                         "memory-ecc-corrected"),
                        "by the kernel's log and counters, not by mcelog and its limits"),
    "check_cmd_dmesg": (("kernel-fault", "kernel-trouble"),
                        "by muster's catalogue of lines, not by these patterns"),
    "check_ps_unauth_users": (("process-without-job",), f"it is off until a site enables it; {_JOBS}"),
    "check_ps_userproc_lineage": (("process-lineage",), f"it is off until a site enables it; {_JOBS}"),
    "check_ps_kswapd": (("numa-free", "numa-memory"), "sizes of NUMA nodes, not what kswapd does"),
    "check_gpu_xid": (("kernel-xid", "kernel-xid-watch"), "by muster's table of Xids, not by this list"),
    "check_gpu_ecc": (("gpu-ecc-uncorrected", "gpu-row-remap-pending", "gpu-row-remap-failed"),
                      "by the rules' own limits"),
    "check_nvlink_status": (("nvlink-active", "nvlink-count"), "the number of links is the SKU's"),
    "check_gpu_persistence": (("gpu-persistence",), "it sets nothing"),
    "check_vbios_version": (("fleet-vbios",), "nodes are compared with their equals, not with this version"),
    "check_ib_link_flapping": (("port-flapping", "port-link-downed"), "by the rules' own limits"),
    "check_nvme_count": (("disk-nvme-count",), "the number is nvme_count of the SKU"),
}
_FILES = "what a site's files hold is its configuration management's"
_COMMANDS = "rules hold no commands; a check of your own: muster help adding-a-check"
_LOAD = "a training job takes all there is"
_NONE: Mapping[str, str] = {
    "check_hw_swap": "how much swap there is is not judged; host-swap wants none in use",
    "check_hw_swap_free": "free swap is not judged; host-swap wants none in use",
    "check_hw_gm": "no rule knows Myrinet",
    "check_fs_size": "sizes of file systems are not judged",
    "check_fs_inodes": "how many inodes there are is not judged; filesystem-inodes: how many are used",
    "check_file_test": _FILES, "check_file_stat": _FILES, "check_file_contents": _FILES,
    "check_cmd_output": _COMMANDS, "check_cmd_status": _COMMANDS,
    "check_ps_blacklist": "what may run is the scheduler's",
    "check_ps_cpu": _LOAD, "check_ps_mem": _LOAD, "check_ps_physmem": _LOAD, "check_ps_time": _LOAD,
    "check_ps_loadavg": "a job's load is its own",
    "check_net_ping": "the sweep itself shows that a node is reached",
    "check_net_socket": "the sweep itself shows that a node is reached",
    **dict.fromkeys(("check_moab_sched", "check_moab_rm", "check_moab_torque"),
                    "muster asks the scheduler at the head, where it needs it"),
}
KNOWN = frozenset((*_READ, *_PART, *_NONE))


def settings(
    found: Iterable[NhcMatch], own: Mapping[str, Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, dict[str, Any]], list[str]]:
    """The SKU's numbers and the rules' parameters that all lines together ask for, and remarks. `own` are the
    parameters that the rules have. Where lines differ, the strictest limit counts, a number is left out, and
    a remark says so; no limit gets looser than it is."""
    found = tuple(found)
    numbers: dict[str, dict[Any, list[NhcLine]]] = {}
    wanted: dict[str, dict[str, Any]] = {}
    remarks = []
    for one in found:
        for name, value in one.numbers.items():
            numbers.setdefault(name, {}).setdefault(value, []).append(one.line)
        for rule, parameters in one.parameters.items():
            for name, value in parameters.items():
                there = wanted.setdefault(rule, {})
                if isinstance(value, list):
                    there[name] = list(dict.fromkeys((*there.get(name, _start(rule, own, name)), *value)))
                else:
                    before = there.get(name, own.get(rule, {}).get(name))
                    there[name] = min(value, before) if isinstance(before, int) else value
    targets = dict.fromkeys(one.line.target for one in found if one.numbers or one.parameters)
    if len(targets) > 1:
        remarks.append(f"the lines are for different nodes ({', '.join(targets)}), the values for all: put "
                       "what is for some into a SKU or a profile of their own")
    chosen = {}
    for name, values in numbers.items():
        if len(values) == 1:
            chosen[name] = next(iter(values))
        else:
            said = "; ".join(f"{value} (line {', '.join(str(line.number) for line in lines)})"
                             for value, lines in values.items())
            remarks.append(f"{name} differs: {said}; make a SKU for each kind")
    kept = {rule: {name: value for name, value in parameters.items() if own.get(rule, {}).get(name) != value}
            for rule, parameters in wanted.items()}
    return chosen, {rule: parameters for rule, parameters in kept.items() if parameters}, remarks


def _start(rule: str, own: Mapping[str, Mapping[str, Any]], name: str) -> Sequence[str]:
    """What a list has before; names of services that a site is to replace are only an example."""
    return () if rule == "service-expected" else tuple(own.get(rule, {}).get(name, ()))
