"""Lines of one report of the kernel are one event, and what others say in its midst stays theirs.

The reports are real ones, shortened, from the kernel's documentation and commit messages, from its mailing
lists and from issue trackers; each names its source.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.baseline.formats import read
from healthcheck.kernellog.model import BootLog, KernelEventKind, LogLine
from healthcheck.kernellog.reports import GAP_LINES, MOST_TOGETHER, LogReport, report_kind, reports


def log_of(text: str) -> BootLog:
    """Lines with their times, or lines without, one millisecond apart."""
    rows = [row for row in text.splitlines() if row.strip()]
    if not rows[0].startswith("["):
        rows = [f"[{100 + number / 1000:12.6f}] {row}" for number, row in enumerate(rows)]
    return read("".join(f"{row}\n" for row in rows).encode(), "x")[0]


def found(lines: tuple[LogLine, ...]) -> list[LogReport]:
    return reports(lines, [index for index, line in enumerate(lines) if report_kind(line.text)])


def heads(text: str) -> list[tuple[KernelEventKind, int, str]]:
    lines = log_of(text).lines
    return [(report.kind, len(report.indices), lines[report.head].text) for report in found(lines)]


# NVIDIA/open-gpu-kernel-modules, issue 1107 (6.18)
OOPS = """\
BUG: kernel NULL pointer dereference, address: 0000000000000030
#PF: supervisor read access in kernel mode
#PF: error_code(0x0000) - not-present page
PGD 55c190067 P4D 55c190067 PUD 0
Oops: Oops: 0000 [#1] SMP NOPTI
CPU: 0 UID: 1000 PID: 28651 Comm: python3.14 Tainted: G           O        6.18.24 #1-NixOS PREEMPT(voluntary)
Tainted: [O]=OOT_MODULE
Hardware name: Micro-Star International Co., Ltd. MS-7B89/B450M MORTAR MAX (MS-7B89), BIOS 2.M1 08/19/2024
RIP: 0010:nvidia_vma_access+0x1b/0x350 [nvidia]
Code: 90 90 90 90 90 90 90 90 90 90 90 90 90 90 90 f3 0f 1e fa 0f 1f 44 00 00 41 57 41 56 41 55 <4c> 8b 0c 25 30 00 00 00
RSP: 0018:ffffcbec19e57d30 EFLAGS: 00010286
RAX: ffff8b2212f16e40 RBX: 00007f5bf938e000 RCX: 0000000000000040
Call Trace:
 <TASK>
 subdeviceCtrlCmdOsUnixAudioDynamicPower_IMPL+0x27/0x2b [nvidia 150ac0faf5cc194d9]
 ? entry_SYSCALL_64_after_hwframe+0x76/0x7e
 </TASK>
Modules linked in: nvidia_uvm(O) nvidia(O) xt_conntrack nf_conntrack
CR2: 0000000000000030
---[ end trace 0000000000000000 ]---
"""  # noqa: E501
# Linux, commit message of a btrfs fix of 2025 (6.14)
WARNING = """\
[ 1272.943000] ------------[ cut here ]------------
[ 1272.943527] refcount_t: underflow; use-after-free.
[ 1272.943967] WARNING: CPU: 1 PID: 61 at lib/refcount.c:28 refcount_warn_saturate+0xba/0x110
[ 1272.944731] Modules linked in: btrfs virtio_net xor zstd_compress raid6_pq null_blk [last unloaded: btrfs]
[ 1272.945550] CPU: 1 UID: 0 PID: 61 Comm: kworker/u32:1 Kdump: loaded Tainted: G        W          6.14.0-rc5+ #108
[ 1272.946368] Tainted: [W]=WARN
[ 1272.946585] Hardware name: QEMU Standard PC (i440FX + PIIX, 1996), BIOS Arch Linux 1.16.3-1-1 04/01/2014
[ 1272.947273] Workqueue: btrfs_discard btrfs_discard_workfn [btrfs]
[ 1272.947788] RIP: 0010:refcount_warn_saturate+0xba/0x110
[ 1272.949532] RSP: 0018:ffffbf1200247df0 EFLAGS: 00010282
[ 1272.949901] RAX: 0000000000000000 RBX: ffffa14b00e3f800 RCX: 0000000000000000
[ 1272.952100] PKRU: 55555554
[ 1272.952200] Call Trace:
[ 1272.952300]  <TASK>
[ 1272.952400]  btrfs_discard_workfn+0x1/0x2 [btrfs]
[ 1272.952500]  </TASK>
[ 1272.952600] ---[ end trace 0000000000000000 ]---
"""  # noqa: E501
# linux-rdma, a fix for mlx5_ib of 2025 (6.8)
HUNG = """\
INFO: task irq/105-pciehp:1246 blocked for more than 122 seconds.
      Tainted: G           OE      6.8.0-54-generic #56-Ubuntu
"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.
task:irq/105-pciehp  state:D stack:0     pid:1246  tgid:1246  ppid:2      flags:0x00004000
Call Trace:
 <TASK>
 __schedule+0x27c/0x6b0
 mlx5r_umr_post_send_wait+0x15f/0x2d0 [mlx5_ib]
 ? __pfx_mlx5r_umr_done+0x10/0x10 [mlx5_ib]
 </TASK>
"""
# linux-mm, the change that prints memory.stat (5.2), and equinor/ert, issue 7797
OOM = """\
stress invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
CPU: 2 PID: 210 Comm: stress Not tainted 5.2.0-rc2-mm1-00247-g47d49835983c #135
Hardware name: QEMU Standard PC (i440FX + PIIX, 1996), BIOS 1.12.0-20181126_142135-anatol 04/01/2014
Call Trace:
 dump_stack+0x46/0x60
 oom_kill_process.cold.10+0xb/0x10
RIP: 0033:0x55c32167fc10
Code: Bad RIP value.
RSP: 002b:00007fff1d031c50 EFLAGS: 00010206
Mem-Info:
active_anon:98024 inactive_anon:167006 isolated_anon:0
 active_file:27096 inactive_file:25414 isolated_file:0
Node 0 active_anon:968kB inactive_anon:32280kB active_file:101656kB
DMA free:519112kB boost:7216kB min:10428kB low:11228kB high:12028kB
lowmem_reserve[]: 0 0 3188 3188
DMA: 142*4kB (UEC) 161*8kB (UEC) 59*16kB (UEC) = 519120kB
36861 total pagecache pages
0 pages in swap cache
Free swap  = 785668kB
Total swap = 785668kB
1012736 pages RAM
0 pages HighMem/MovableOnly
memory: usage 491520kB, limit 491520kB, failcnt 0
Memory cgroup stats for /a:
anon 479166464
Tasks state (memory values in pages):
[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[    221]     0   221     7161     1189    77824        0             0 systemd-journal
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,task=perl,pid=1440763,uid=21417
Out of memory: Killed process 1440763 (perl) total-vm:87033376kB, anon-rss:60356340kB, file-rss:0kB, shmem-rss:0kB, UID:21417
oom_reaper: reaped process 1440763 (perl), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
"""  # noqa: E501
# amazonlinux/amazon-linux-2023, issue 1037 (6.12), and cut short
STALL = """\
[  745.155635] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:
[  745.156445] rcu:     0-...0: (1 GPs behind) idle=d634/1/0x4000000000000002 softirq=7032/7032 fqs=2024
[  745.157849] rcu:     (detected by 1, t=5902 jiffies, g=16541, q=4391 ncpus=16)
[  745.159013] Sending NMI from CPU 1 to CPUs 0:
[  748.159658] rcu: rcu_sched kthread starved for 999 jiffies! g16541 f0x0 RCU_GP_DOING_FQS(6) ->state=0x0 ->cpu=10
[  748.161090] rcu:     Unless rcu_sched kthread gets sufficient CPU time, OOM is now expected behavior.
[  748.162491] rcu: RCU grace-period kthread stack dump:
[  748.163403] task:rcu_sched       state:I stack:0     pid:17    tgid:17    ppid:2      flags:0x00000008
[  748.163500] Call trace:
[  748.163600]  __switch_to+0xb0/0x128
[  748.163700] NMI backtrace for cpu 10
[  748.163800] CPU: 10 UID: 0 PID: 0 Comm: swapper/10 Not tainted 6.12.0
"""  # noqa: E501
# linux-kernel, 2020 (5.8)
LOCKUP = """\
watchdog: BUG: soft lockup - CPU#3 stuck for 21s! [grep:4749]
Modules linked in:
hardirqs last  enabled at (2780): [<ffffffff88200204>] __do_softirq+0x204/0xa60 kernel/softirq.c:276
CPU: 3 PID: 4749 Comm: grep Not tainted 5.8.0-rc7-syzkaller #0
RIP: 0010:__do_softirq+0x22f/0xa60 kernel/softirq.c:278
Code: c7 c0 98 e0 b4 89 48 c1 e8 03 42 80 3c 30 00 0f 85 70 07 00 00
"""
# linux-erofs, 2020 (5.9)
BAD_PAGE = """\
BUG: Bad page state in process kworker/u9:0  pfn:687de
page:0000000057b8bcb4 refcount:0 mapcount:0 mapping:0000000000000000 index:0x0 pfn:0x687de
flags: 0x4000000000002000(private)
raw: 4000000000002000 dead000000000100 dead000000000122 0000000000000000
page dumped because: PAGE_FLAGS_CHECK_AT_FREE flag(s) set
Modules linked in:
CPU: 1 PID: 602 Comm: kworker/u9:0 Not tainted 5.9.1 #2
Call Trace:
 dump_stack+0x84/0xba
"""
# linux-edac, 2022: an AMD memory error (6.1)
MCE_AMD = """\
[  313.747594] mce: [Hardware Error]: Machine check events logged
[  313.747597] [Hardware Error]: Corrected error, no action required.
[  313.747613] [Hardware Error]: CPU:0 (19:61:2) MC21_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0xdc2040000400011b
[  313.747632] [Hardware Error]: Error Addr: 0x00000007ff7e93c0
[  313.747639] [Hardware Error]: IPID: 0x0000009600050f00, Syndrome: 0x000100010a801203
[  313.747652] [Hardware Error]: Unified Memory Controller Ext. Error Code: 0, DRAM ECC error.
[  313.747669] EDAC MC0: 1 CE Cannot decode normalized address on mc#0csrow#3channel#0 (csrow:3 channel:0 page:0x0 offset:0x0 grain:64 syndrome:0x1)
[  313.747672] [Hardware Error]: cache level: L3/GEN, tx: GEN, mem-tx: RD
"""  # noqa: E501
# andikleen/mcelog, issue 70
MCE_INTEL = """\
mce: [Hardware Error]: Machine check events logged
mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 4: a600000000020408
mce: [Hardware Error]: TSC 0 ADDR fef4c9e0
mce: [Hardware Error]: PROCESSOR 0:706a1 TIME 1537152664 SOCKET 0 APIC 0 microcode 28
"""
# prometheus/node_exporter, issue 3511
GHES = """\
{35}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4
{35}[Hardware Error]: It has been corrected by h/w and requires no further action
{35}[Hardware Error]: event severity: corrected
{35}[Hardware Error]:  Error 0, type: corrected
{35}[Hardware Error]:  fru_text: D2
{35}[Hardware Error]:   section_type: memory error
{35}[Hardware Error]:   error_type: 2, single-bit ECC
"""
# linux-pci: two ports at once, as their lines came
AER_TWO = """\
[172.302385] pcieport 0003:00:00.0: AER: Corrected error message received from 0003:00:00.0
[172.302396] pcieport 000b:00:02.0: AER: Corrected error message received from 000b:00:02.0
[172.310641] pcieport 0003:00:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)
[172.310892] pcieport 000b:00:02.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)
[172.310893] pcieport 0003:00:00.0:   device [0823:0110] error status/mask=00000001/0000e000
[172.310894] pcieport 0003:00:00.0:    [ 0] RxErr
[172.310893] pcieport 000b:00:02.0:   device [0823:0112] error status/mask=00000001/0000e000
[172.310894] pcieport 000b:00:02.0:    [ 0] RxErr                  (First)
"""
# Documentation/PCI/pcieaer-howto.rst
AER = """\
0000:50:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)
0000:50:00.0:   device [8086:0329] error status/mask=00100000/00000000
0000:50:00.0:    [20] UnsupReq               (First)
0000:50:00.0:   TLP Header: 0x04000001 0x00200a03 0x05010000 0x00050100
"""
# netdev, 2024: firmware of a ConnectX
HEALTH = """\
[  445.937186] mlx5_core 0000:0d:00.0: poll_health:801:(pid 0): device's health compromised - reached miss count
[  445.937212] mlx5_core 0000:0d:00.0: print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:
[  445.937221] mlx5_core 0000:0d:00.0: print_health_info:435:(pid 0): assert_var[0] 0x0521945b
[  445.937228] mlx5_core 0000:0d:00.0: print_health_info:435:(pid 0): assert_var[1] 0x00000000
[  445.937300] mlx5_core 0000:0d:00.0: print_health_info:458:(pid 0): synd 0x1: firmware internal error
"""  # noqa: E501
SEGFAULT = """\
python3[48210]: segfault at 0 ip 00007f3a1c2b9d41 sp 00007ffd8a1e2f10 error 4 in libparquet.so.1500[7f3a1c200000+1a3000] likely on CPU 2 (core 1, socket 0)
Code: 48 8b 05 19 dd 0e 00 48 8b 00 48 85 c0 0f 85 7b 02 00 00 e9 90 <8b> 00 00 00
"""  # noqa: E501
# Documentation/admin-guide and net/sched/sch_generic.c
WATCHDOG = """\
------------[ cut here ]------------
NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 5 timed out
WARNING: CPU: 0 PID: 0 at net/sched/sch_generic.c:477 dev_watchdog+0x138/0x160
CPU: 0 PID: 0 Comm: swapper/0 Not tainted 5.15.109-00161-g1268ae25c302-dirty #7
---[ end trace 0000000000000000 ]---
"""


# lib/ubsan.c (5.15 to 6.6)
UBSAN = """\
================================================================================
UBSAN: array-index-out-of-bounds in /build/linux/drivers/scsi/megaraid/megaraid_sas_fp.c:103:32
CPU: 0 PID: 377 Comm: systemd-udevd Not tainted 5.15.0-125-generic #135-Ubuntu
Call Trace:
 <TASK>
 show_stack+0x52/0x5c
 </TASK>
================================================================================
"""
# raspberrypi/linux, issue 6792 (arm64)
ARM64 = """\
Unable to handle kernel paging request at virtual address ffffc04000004000
Mem abort info:
  ESR = 0x0000000096000005
  EC = 0x25: DABT (current EL), IL = 32 bits
  SET = 0, FnV = 0
  EA = 0, S1PTW = 0
  FSC = 0x05: level 1 translation fault
Data abort info:
  ISV = 0, ISS = 0x00000005, ISS2 = 0x00000000
  CM = 0, WnR = 0, TnD = 0, TagAccess = 0
  GCS = 0, Overlay = 0, DirtyBit = 0, Xs = 0
swapper pgtable: 16k pages, 47-bit VAs, pgdp=000000000148c000
[ffffc04000004000] pgd=0000000000000000
Internal error: Oops: 96000005 [#1] SMP
pc : vma_adjust+0x214/0x510
x29: ffffffc0e426bc40 x28: 0000000000000000
Call trace:
 vma_adjust+0x214/0x510 (P)
---[ end trace 0000000000000000 ]---
"""


@pytest.mark.parametrize(("text", "kind", "apart", "head"), [
    (OOPS, KernelEventKind.TRACE, 0, "BUG: kernel NULL pointer dereference"),
    (WARNING, KernelEventKind.TRACE, 1, "WARNING: CPU: 1 PID: 61 at lib/refcount.c:28"),
    (HUNG, KernelEventKind.TRACE, 0, "INFO: task irq/105-pciehp:1246 blocked"),
    (OOM, KernelEventKind.OOM, 0, "stress invoked oom-killer"),
    (STALL, KernelEventKind.TRACE, 0, "rcu: INFO: rcu_sched detected stalls"),
    (LOCKUP, KernelEventKind.TRACE, 0, "watchdog: BUG: soft lockup"),
    (BAD_PAGE, KernelEventKind.TRACE, 0, "BUG: Bad page state"),
    (MCE_AMD, KernelEventKind.HARDWARE, 1, "[Hardware Error]: Corrected error"),
    (MCE_INTEL, KernelEventKind.HARDWARE, 0, "mce: [Hardware Error]: CPU 0: Machine Check"),
    (GHES, KernelEventKind.HARDWARE, 0, "{35}[Hardware Error]: Hardware error from APEI"),
    (AER, KernelEventKind.HARDWARE, 0, "0000:50:00.0: PCIe Bus Error"),
    (HEALTH, KernelEventKind.HARDWARE, 1,
     "mlx5_core 0000:0d:00.0: print_health_info:431:(pid 0): Health issue observed"),
    (SEGFAULT, KernelEventKind.TRACE, 0, "python3[48210]: segfault"),
    (UBSAN, KernelEventKind.TRACE, 0, "UBSAN: array-index"),
    (ARM64, KernelEventKind.TRACE, 0, "Unable to handle kernel paging request"),
    (WATCHDOG, KernelEventKind.TRACE, 1, "WARNING: CPU: 0 PID: 0 at net/sched"),
])
def test_a_report_is_one_event_named_by_the_line_that_says_what_it_is(
    text: str, kind: KernelEventKind, apart: int, head: str,
) -> None:
    ((one, count, named),) = heads(text)
    assert one is kind
    assert count == len(text.splitlines()) - apart
    assert named.startswith(head)


def test_two_reports_one_after_the_other_are_two() -> None:
    assert [kind for kind, _, _ in heads(OOPS + "\n" + WATCHDOG)] == [
        KernelEventKind.TRACE, KernelEventKind.TRACE]
    assert [count for _, count, _ in heads(GHES.replace("35", "1") + GHES.replace("35", "2"))] == [7, 7]
    assert [head for _, _, head in heads(SEGFAULT + SEGFAULT)] == [SEGFAULT.splitlines()[0]] * 2


def test_two_reports_between_rules_are_two() -> None:
    assert [count for _, count, _ in heads(UBSAN + UBSAN)] == [8, 8]


def test_machine_checks_without_more_words_stay_single() -> None:
    assert heads("mce: [Hardware Error]: Machine check events logged\n" * 3) == []


def test_errors_of_two_ports_at_once_are_reported_apart_by_their_addresses() -> None:
    lines = log_of(AER_TWO).lines
    first, second = found(lines)
    assert {lines[index].text.split()[1] for index in first.indices} == {"0003:00:00.0:"}
    assert {lines[index].text.split()[1] for index in second.indices} == {"000b:00:02.0:"}
    assert len(first.indices) == len(second.indices) == 4
    assert "PCIe Bus Error" in lines[first.head].text


@pytest.mark.parametrize("foreign", [
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "nvme nvme0: I/O 128 QID 4 timeout, aborting",
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#2_DIMM#0",
    "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
    "eth0: Link is Down",
])
@pytest.mark.parametrize("report", [OOPS, OOM, GHES, LOCKUP])
def test_what_another_says_in_the_midst_of_a_report_is_not_swallowed(report: str, foreign: str) -> None:
    rows = report.splitlines()
    lines = log_of("\n".join([*rows[:2], foreign, *rows[2:]])).lines
    (one,) = found(lines)
    assert len(one.indices) == len(rows)
    assert 2 not in one.indices
    assert lines[2].text == foreign


def test_a_panic_is_an_event_of_its_own_beside_the_oops_that_brought_it() -> None:
    text = (OOPS + "Kernel panic - not syncing: Fatal exception\nKernel Offset: 0x3a000000 from "
                   "0xffffffff81000000\n---[ end Kernel panic - not syncing: Fatal exception ]---\n")
    assert [(count, head[:12]) for _, count, head in heads(text)] == [
        (20, "BUG: kernel "), (3, "Kernel panic")]


def test_two_processors_that_speak_at_once_are_reported_apart_by_who_says_it() -> None:
    one, two = OOPS.splitlines(), HUNG.splitlines()
    rows = []
    for number in range(max(len(one), len(two))):
        rows += [f"[    9.{number:06}][    T7] {one[number]}"] if number < len(one) else []
        rows += [f"[    9.{number:06}][   T12] {two[number]}"] if number < len(two) else []
    lines = log_of("\n".join(rows)).lines
    assert [(len(report.indices), {lines[index].caller for index in report.indices})
            for report in found(lines)] == [
                (len(one), {"T7"}), (len(two), {"T12"}),
            ]


def test_the_traces_of_other_processors_belong_to_the_stall_that_asked_for_them() -> None:
    rows = [
        "[    9.000000][   C1] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:",
        "[    9.000001][   C1] Sending NMI from CPU 1 to CPUs 0:",
        "[    9.000002][   C0] NMI backtrace for cpu 0",
        "[    9.000003][   C0] CPU: 0 PID: 9 Comm: x Not tainted 6.8.0",
        "[    9.000004][   C0] RIP: 0010:a+0x1/0x2",
    ]
    ((kind, count, head),) = heads("\n".join(rows))
    assert (kind, count) == (KernelEventKind.TRACE, 5)
    assert head.startswith("rcu: INFO")


def test_a_trace_without_a_name_is_named_by_the_line_before_it() -> None:
    text = ("[    9.0] mydriver: queue 3 is stuck\n[    9.000001] CPU: 1 PID: 602 Comm: x Not tainted 5.9.1 "
            "#2\n[    9.000002] Call Trace:\n[    9.000003]  dump_stack+0x84/0xba\n")
    assert heads(text) == [(KernelEventKind.TRACE, 4, "mydriver: queue 3 is stuck")]


def test_an_xid_before_a_trace_stays_its_own() -> None:
    text = ("[    9.0] NVRM: Xid (PCI:0000:3b:00): 13, x\n[    9.000001] CPU: 1 PID: 602 Comm: x Not "
            "tainted\n[    9.000002] Call Trace:\n")
    assert heads(text) == [(KernelEventKind.TRACE, 2, "CPU: 1 PID: 602 Comm: x Not tainted")]


def test_an_unfinished_report_swallows_nothing_later() -> None:
    rows = ["[  100.000000] ------------[ cut here ]------------",
            "[  100.000001] WARNING: CPU: 1 PID: 1 at a.c:1 b+0x1/0x2", "[  400.000000] Modules linked in: x",
            "[  400.000001] Code: 48 8b"]
    lines = log_of("\n".join(rows)).lines
    assert found(lines)[0].indices == (0, 1)


def test_lines_without_times_are_bounded_by_their_number() -> None:
    lines = (LogLine("WARNING: CPU: 1 PID: 1 at a.c:1 b+0x1/0x2"),
             *(LogLine(f"other {number}") for number in range(GAP_LINES + 1)),
             LogLine("Modules linked in: x"))
    assert found(lines) == []


def test_a_killed_process_whose_report_was_left_out_is_a_line_of_its_own() -> None:
    assert heads("Memory cgroup out of memory: Killed process 7788 (bash) total-vm:7169492kB\nNode 0 "
                 "hugepages_total=0\n") == []


@pytest.mark.parametrize("text", [
    "Linux version 6.8.0-49-generic", "rcu: Hierarchical RCU implementation.",
    "rcu: \tRCU event tracing is enabled.", "rcu: \tTrampoline variant of Tasks RCU enabled.",
    "smp: Bringing up secondary CPUs ...", "ACPI: RSDP 0x00000000000E0000 000024",
    "EDAC MC0: Giving out device to module amd64_edac controller F19h_M60h",
    "mce: CPU supports 7 MCE banks", "pcieport 0000:00:01.0: AER: enabled with IRQ 26",
    "GHES: APEI firmware first mode is enabled by APEI bit",
    "mlx5_core 0000:5e:00.0: firmware version: 28.39.1002",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.06",
    "Freeing unused kernel image (initmem) memory: 4892K",
    "x86/fpu: xstate_offset[2]:  576, xstate_sizes[2]:  256", "perf: interrupt took too long (2503 > 2500)",
    "NET: Registered PF_INET6 protocol family", "usb 1-1: New USB device found, idVendor=1d6b",
    "BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable", "tsc: Detected 2700.000 MHz processor",
])
def test_what_a_healthy_boot_says_opens_nothing(text: str) -> None:
    assert report_kind(text) is None


def test_a_hundred_thousand_beginnings_take_linear_time_and_bounded_reports() -> None:
    def seconds(count: int) -> float:
        lines = [LogLine("------------[ cut here ]------------", at / 1e6) for at in range(count)]
        began = time.process_time()
        assert reports(lines, range(count)) == []
        return time.process_time() - began

    small, large = seconds(10_000), seconds(100_000)
    assert large < 40 * small + 1


def test_an_endless_report_is_cut_in_pieces() -> None:
    lines = [LogLine("stress invoked oom-killer: gfp_mask=0x0"),
             *(LogLine(f"[{number:7}]     0  {number}     7161     1189", None) for number in range(25_000))]
    assert max(len(report.indices) for report in found(tuple(lines))) == MOST_TOGETHER


@pytest.mark.parametrize("text", ["[" * 8000, " " * 8000, "a" * 8000, "\t" * 8000, "0000:00:00.0: " * 500,
                                  "a_b+" * 2000, " a" * 4000, "BUG" * 2000, "1" * 8000, "mce: " * 1600,
                                  "x[1]: " * 1000, "A-" * 4000, "[Hardware Error]: " + "A" * 8000])
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    for tail in range(20):
        report_kind(text + str(tail))
    assert time.process_time() - began < 0.5


EVERY = [line for text in (OOPS, WARNING, HUNG, OOM, STALL, MCE_AMD, GHES, AER_TWO, HEALTH, SEGFAULT,
                           WATCHDOG, UBSAN) for line in log_of(text).lines]


@given(st.lists(st.builds(
    LogLine, text=st.one_of(st.sampled_from([line.text for line in EVERY]), st.text(max_size=40)),
    seconds=st.one_of(st.none(), st.floats(0, 200)), caller=st.sampled_from(["", "T1", "C2"]),
), max_size=60))
def test_each_line_is_in_one_report_at_most_and_each_head_in_its_own(lines: list[LogLine]) -> None:
    all_of = found(tuple(lines))
    indices = [index for report in all_of for index in report.indices]
    assert len(indices) == len(set(indices))
    for report in all_of:
        assert list(report.indices) == sorted(report.indices)
        assert report.head in report.indices
        assert len(report.indices) > 1
