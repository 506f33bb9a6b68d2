"""What a single line is in a multi-line report of the kernel: its begin, its name, or a later line."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, lru_cache


class Role(Enum):
    """The line of the highest value names the report."""

    MORE = 0        # registers, call traces, banks
    OPEN = 1        # always begins a report; a later line names it
    WEAK = 2        # continues a report; names it if nothing else does
    HEAD = 3        # names a report; begins it unless an OPEN line did


class ReportFamily(Enum):
    """Reports whose lines look the same."""

    TRACE = "trace"         # of the kernel
    FAULT = "fault"         # of a program: segfault and the code there
    OOM = "oom"
    MACHINE = "machine"     # machine checks, and errors that the firmware reports
    PCIE = "pcie"
    HEALTH = "health"       # mlx5 firmware about itself

    @property
    def within(self) -> tuple[ReportFamily, ...]:
        """The families that its lines can continue: registers and call traces stand in other reports, too."""
        return ((ReportFamily.TRACE, ReportFamily.OOM, ReportFamily.FAULT) if self is ReportFamily.TRACE
                else (self,))


@dataclass(frozen=True)
class ReportPart:
    """What a line is in its report. `lane` separates simultaneous reports of one family. `stall` marks
    reports that other CPUs answer with their traces, `elsewhere` those answers, `may_need_head` a trace that
    the line before may have announced, `code` the bytes that were being executed (only they continue a
    program's fault), `ends` the rule that is drawn above and below a report."""

    family: ReportFamily
    role: Role
    lane: str = ""
    stall: bool = False
    elsewhere: bool = False
    may_need_head: bool = False
    code: bool = False
    ends: bool = False


def _any(*patterns: str) -> str:
    return "|".join(patterns)


_STALL = _any(
    r"(?:NMI )?watchdog: (?:BUG: soft lockup|Watchdog detected hard LOCKUP)",
    r"BUG: (?:soft lockup|workqueue lockup)",
    r"(?:rcu: )?INFO: rcu\w{0,24} (?:self-)?detected (?:expedited )?stall",
    r"INFO: task [^\n]{1,64} blocked for more than",
)
_HEAD = _any(
    r"WARNING: (?:CPU: \d|possible |inconsistent |suspicious |bad unlock|held lock|kernel "
    r"stack|[\w./-]{1,80}:\d{1,6} at )",
    r"BUG: ", r"[Kk]ernel BUG at ", r"Kernel panic - ", r"Unable to handle kernel ",
    r"(?:Oops: )?general protection fault\b", r"Oops: [a-z][\w -]{3,40}: ",
    r"INFO: (?:possible |inconsistent |trying to register |suspicious RCU)", r"SError Interrupt on CPU",
    r"Bad mode in ", r"UBSAN: ", r"[^\n]{1,64}: page allocation (?:failure|stalls)",
)
# The name of an exception: the head if no other line names the report.
_WEAK = _any(r"(?:Internal error: )?Oops(?: -[^\n:]{0,40})?: ", r"[a-z][a-z ]{2,40}: [0-9a-f]{4} \[#\d",
             r"Internal error: ")
_SYMBOL = r"[\w.$]{1,200}\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}"
_REGISTER = (
    r"(?:[RE][A-D]X|[RE][SD]I|[RE][BS]P|[RE]IP|R\d\d|FS|CS|DS|CR\d|DR\d|PKRU|ORIG_RAX|EFLAGS|IP|LR|NIP"
    r"|GPR\d\d)")
_TRACE = _any(
    # the call trace
    rf"\s{{0,4}}(?:\[<[0-9a-f]{{0,16}}>\] )?(?:\? )?{_SYMBOL}(?: \[[^\]\n]{{1,80}}\])?(?: "
    rf"\([A-Z]{{1,4}}\))?\s{{0,2}}$",
    r"\s{0,4}\[<[0-9a-f]{0,16}>\] ", r"\[[0-9a-f]{16}\] \[[0-9a-f]{16}\] ",
    r"\s{0,2}</?(?:TASK|IRQ|NMI|SOFTIRQ|EOI|UNK|#[A-Z]{2}|ENTRY_TRAMPOLINE)>",
    r"Stack:\s?$", r"\s[0-9a-f]{16} [0-9a-f]{16}\b", r"---\[ end ",
    # registers: x86 and POWER, arm64
    rf"{_REGISTER}: ?\s{{0,3}}[0-9a-f(<b_[]", rf"RIP: (?:[0-9a-f]{{4}}:)?{_SYMBOL}", r"RIP  ?\[<", r"RSP <",
    r"PGD [0-9a-f]", r"#PF: ", r"(?:pc|lr|sp|pstate) : ", r"(?:PC|LR) is at ",
    r"[0-9a-f]{16}: [0-9a-f]{16}\b", r"x\d{1,2}\s{0,2}: [0-9a-f]{8,16}\b",
    r"(?:Mem|Data) abort info:",
    r"\s{2}(?:ESR|EC|SET|FSC|EA|ISV|CM|GCS|Exception class) ?=", r"(?:user|swapper) pgtable: ",
    r"\[[0-9a-f]{16}\] (?:pgd|user address)",
    # who, where, what was loaded
    r"Modules linked in:", r"Unloaded tainted modules:", r"last unloaded:", r"Kernel Offset: ",
    r"Hardware name: ", r"Workqueue: ",
    r"\s[a-z0-9_]{2,40}(?:\([A-Z]{1,5}\))?(?: [a-z0-9_]{2,40}(?:\([A-Z]{1,5}\))?){5}",
    r"Process [^\n]{1,64} \(pid: \d", r"task: [0-9a-f]{8,16} ", r"task:[^\n]{1,64} state:[A-Z]",
    r"[^\n]{1,24}\s[DRSTZIX]\s{1,8}(?:[0-9a-f]{16}\s|running "
    r"task|stack:|\d{1,8}\s{1,8}\d{1,10}\s{1,8}\d{1,10}\s)",
    r"\s{5,8}(?:Not tainted|Tainted: )", r"Tainted: \[",
    r"\"echo 0 > /proc/sys/kernel/hung_task", r"note: [^\n]{1,64} exited with ",
    r"irq event stamp: ", r"(?:hard|soft)irqs last ", r"Preemption disabled at", r"Sending NMI from CPU",
    r"Showing (?:busy workqueues|all locks|backtrace)", r"Rebooting in \d", r"Shutting down cpus with NMI",
    r"Dumping ftrace buffer",
    # the page of 'Bad page state'
    r"page:[0-9a-f]{8,16} ", r"page: refcount", r"page dumped because", r"page_type: ",
    r"head: ?[0-9a-f]{16}", r"raw: [0-9a-f]{16}", r"flags: 0x[0-9a-f]{8,16}\(", r"bad because of flags",
    r"page_owner (?:tracks|info)", r"addr:[0-9a-f]{8,16} vm_flags:",
    # the CPUs of a stall
    r"(?:rcu:)?\s{1,12}(?:\d{1,5}-[.!?OoNTD0-9]{3,5}: |\(detected by |\(t=\d|Tasks blocked on level-)",
    r"rcu:\s{1,24}(?:hardirqs|number:|cputime:)",
    r"rcu:\s{1,12}(?:Unless rcu_|RCU grace-period kthread|rcu_\w{1,24} kthread |Possible timer "
    r"handling|Stack dump where RCU|All QSes seen"
    r"|blocking rcu_node)", r"Task dump for CPU \d",
)
_ASKED = _any(r"Call [Tt]race:", r"CPU: \d{1,5} (?:UID: \d{1,10} )?PID: \d{1,10} Comm: ")
_FAULT = _any(r"[^\n]{1,64}\[\d{1,10}\]: segfault at ", r"traps: [^\n]{1,64}\[\d{1,10}\] ",
              r"[^\n]{1,64}\[\d{1,10}\] general protection ")
_KILLED = _any(
    r"oom-kill:constraint=",
    r"(?:Memory cgroup )?[Oo]ut of memory(?: \(oom_kill_allocating_task\))?: Kill(?:ed)? process",
    r"Killed process \d", r"oom_reaper: reaped process",
)
_OOM = _any(
    r"Mem-Info:", r"active_anon:",
    r"\s(?:active_file|unevictable|slab_reclaimable|mapped|free|dirty|kernel_misc|sec_pagetables|writeback"
    r"|pagetables|shmem|bounce|free_cma):\d",
    r"CPU\s{1,5}\d{1,5}: hi:",
    r"Node \d{1,4} ", r"(?:DMA|DMA32|Normal|Movable|HighMem)(?: free)?: ?\d", r"lowmem_reserve\[\]:",
    r"\d{1,12} (?:total pagecache pages|pages (?:in swap cache|RAM|HighMem|reserved|cma|hwpoisoned))",
    r"Swap cache stats:", r"(?:Free|Total) swap\s{1,4}=", r"Unreclaimable slab info",
    r"Name\s{10,40}Used\s{1,20}Total", r"[\w.:-]{2,40}\s{1,40}\d{1,12}KB\s{1,12}\d{1,12}KB$",
    r"[^\n]{1,64} cpuset=\S{1,200} mems_allowed=\d", r"Tasks state \(memory values",
    r"\[\s{0,4}pid\s{0,4}\]\s{1,4}uid", r"\[\s{0,8}\d{1,10}\]\s{1,8}\d{1,10}\s{1,8}\d",
    r"(?:memory|swap|kmem|memory\+swap): usage \d", r"Memory cgroup stats for ", r"[a-z_]{3,32} \d{1,20}$",
    r"Tasks? in /",
)
_MACHINE_HEAD = _any(
    r"Hardware error from APEI", r"[A-Z][\w ,-]{3,60} error[,.]", r"CPU \d{1,5}: Machine Check",
    r"Machine check: ",
)
_EDAC = r"EDAC [\w-]{1,24} MC\d{1,4}: (?:HANDLING MCE|CPU \d|TSC |ADDR |MISC |PROCESSOR )"
_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_AER_OPEN = (
    r"AER: (?:Multiple )?(?:Un)?[Cc]orrect(?:ed|able)(?: \((?:Non-)?Fatal\))? error (?:message )?received"
    rf"(?:(?: from|:) (?P<source>{_ADDRESS}))?"
)
_AER = (
    r"(?:AER: )?\s{0,4}(?:device \[[0-9a-f]{4}:[0-9a-f]{4}\] error status|\[\s?\d{1,2}\] ?\S|TLP Header: "
    r"|Error of this Agent"
    r"|aer_layer=|aer_uncor_severity)"
)
_PARTS = _any(
    r"(?P<open>-{12}\[ cut here \]-{12})", r"(?P<rule>={20,80}$)", rf"(?P<stall>{_STALL})",
    rf"(?P<head>{_HEAD})", rf"(?P<weak>{_WEAK})", r"(?P<nmi>NMI backtrace for cpu \d)",
    rf"(?P<asked>{_ASKED})", rf"(?P<fault>{_FAULT})", r"(?P<code>Code: )",
    r"(?P<oom_head>[^\n]{1,64} invoked oom-killer: )", rf"(?P<killed>{_KILLED})",
    r"(?:mce: |BERT: |EDAC [\w-]{1,24}: )?(?:\{(?P<number>\d{1,10})\})?\[Hardware Error\]: "
    rf"(?:(?P<machine_open>Machine check events logged)|(?P<machine_head>{_MACHINE_HEAD})|(?P<machine>))",
    rf"(?P<edac>{_EDAC})",
    rf"(?:[\w.-]{{1,32}} )?(?P<device>{_ADDRESS}): "
    rf"(?:(?P<pcie_open>{_AER_OPEN})|(?P<pcie_head>(?:AER: )?PCIe Bus Error: )|(?P<pcie_weak>(?:AER: "
    rf")?aer_status: )|(?P<pcie>{_AER})"
    r"|print_health_info:[^\n]{1,40}: (?:(?P<health_head>Health issue observed)|(?P<health_weak>synd "
    r")|(?P<health>)))",
    rf"(?P<trace>{_TRACE})", rf"(?P<oom>{_OOM})",
)
_OF = {
    "open": ReportPart(ReportFamily.TRACE, Role.OPEN),
    "rule": ReportPart(ReportFamily.TRACE, Role.OPEN, ends=True),
    "stall": ReportPart(ReportFamily.TRACE, Role.HEAD, stall=True),
    "head": ReportPart(ReportFamily.TRACE, Role.HEAD), "weak": ReportPart(ReportFamily.TRACE, Role.WEAK),
    "nmi": ReportPart(ReportFamily.TRACE, Role.WEAK, elsewhere=True),
    "asked": ReportPart(ReportFamily.TRACE, Role.MORE, may_need_head=True),
    "code": ReportPart(ReportFamily.TRACE, Role.MORE, code=True),
    "trace": ReportPart(ReportFamily.TRACE, Role.MORE), "fault": ReportPart(ReportFamily.FAULT, Role.HEAD),
    "oom_head": ReportPart(ReportFamily.OOM, Role.HEAD), "killed": ReportPart(ReportFamily.OOM, Role.WEAK),
    "oom": ReportPart(ReportFamily.OOM, Role.MORE),
    "machine_open": ReportPart(ReportFamily.MACHINE, Role.OPEN),
    "machine_head": ReportPart(ReportFamily.MACHINE, Role.HEAD),
    "machine": ReportPart(ReportFamily.MACHINE, Role.MORE),
    "edac": ReportPart(ReportFamily.MACHINE, Role.MORE),
    "pcie_open": ReportPart(ReportFamily.PCIE, Role.OPEN),
    "pcie_head": ReportPart(ReportFamily.PCIE, Role.HEAD),
    "pcie_weak": ReportPart(ReportFamily.PCIE, Role.WEAK), "pcie": ReportPart(ReportFamily.PCIE, Role.MORE),
    "health_head": ReportPart(ReportFamily.HEALTH, Role.HEAD),
    "health_weak": ReportPart(ReportFamily.HEALTH, Role.WEAK),
    "health": ReportPart(ReportFamily.HEALTH, Role.MORE),
}


@cache
def _parts() -> re.Pattern[str]:
    """Compiled when the first log is read: most commands read none."""
    return re.compile(_PARTS, re.ASCII)


@lru_cache(maxsize=4096)
def part_of(text: str) -> ReportPart | None:
    """What the line is, or None if it is part of no known report."""
    found = _parts().match(text)
    if found is None:
        return None
    part = _OF[found.lastgroup or ""]
    # The port that reports an error names the device that has it.
    lane = found["number"] or found["source"] or found["device"]
    return replace(part, lane=lane) if lane else part
