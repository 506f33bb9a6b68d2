"""A boot's log is folded: what repeats is one, a report of many lines is one, and each has its phase."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from healthcheck.kernellog.fold import STARTUP_SECONDS, fold
from healthcheck.kernellog.model import MOST_DISTINCT, Digest, KernelEventKind, KernelMessage, LogLine, Phase

BOOT = [
    (0.0, "Linux version 6.5.0-1007-nvidia (buildd@builder) (gcc 12.3.0) #7-Ubuntu SMP Tue Nov 7 01:45:42 "
          "UTC 2023"),
    (0.0, "DMI: Example HGX/Board, BIOS 1.01.03 10/18/2023"),
    (1.2, "Freeing unused kernel image (initmem) memory: 4584K"),
    (1.3, "Run /init as init process"),
    (2.0, "nvme nvme0: 8/0/0 default/read/poll queues"),
    (5.0, "systemd[1]: systemd 249.11-0ubuntu3.11 running in system mode (+PAM +AUDIT)"),
    (9.0, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023"),
    (5.0 + STARTUP_SECONDS + 1, "nfs: server 10.0.0.9 OK"),
]


def lines(*pairs: tuple[float | None, str]) -> list[LogLine]:
    return [LogLine(text, seconds, 6, number) for number, (seconds, text) in enumerate(pairs)]


def one(digest: Digest, words: str) -> KernelMessage:
    (found,) = [message for message in digest.messages if words in message.head]
    return found


def test_each_line_is_of_the_phase_in_which_it_was_said() -> None:
    digest = fold(lines(*BOOT))
    assert [one(digest, words).phase for words in ("Linux version", "Run /init", "nvme0", "NVRM", "nfs")] == [
        Phase.KERNEL, Phase.INITRD, Phase.INITRD, Phase.SERVICES, Phase.RUNNING]
    assert digest.began == {Phase.KERNEL: 0.0, Phase.INITRD: 1.2, Phase.SERVICES: 5.0,
                            Phase.RUNNING: 5.0 + STARTUP_SECONDS}


def test_the_log_itself_says_of_which_kernel_driver_and_firmware_it_is() -> None:
    scope = fold(lines(*BOOT)).scope
    assert (scope.sku, scope.kernel, scope.driver, scope.firmware) == (
        "", "6.5.0-1007-nvidia", "535.129.03", "Example HGX/Board, 1.01.03")


def test_systemd_in_the_initial_ram_disk_is_not_taken_for_that_of_the_system() -> None:
    pairs = [*BOOT[:4], (1.5, "systemd[1]: systemd 252 running in system mode (+PAM)"),
             (1.6, "systemd[1]: Running in initrd."), (4.0, "systemd[1]: Switching root.")]
    assert fold(lines(*pairs)).began[Phase.SERVICES] == 4.0


def test_a_log_whose_start_is_gone_says_of_no_phase_what_it_cannot_know() -> None:
    digest = fold(lines((70.0, "nvme nvme0: something"), (90_000.0, "nfs: server 10.0.0.9 OK")))
    assert [message.phase for message in digest.messages] == [Phase.UNKNOWN, Phase.RUNNING]
    assert digest.began == {}


def test_a_log_without_times_has_phases_by_the_order_of_its_lines() -> None:
    digest = fold(lines(*[(None, text) for _, text in BOOT]))
    assert one(digest, "nvme0").phase is Phase.INITRD and one(digest, "NVRM").phase is Phase.SERVICES
    assert one(digest, "nvme0").first is None


def test_forty_thousand_repeats_are_one_with_the_first_lines_that_differ() -> None:
    digest = fold(
        lines(*[(float(n), f"mlx5_core 0000:0c:00.0: cq {n % 30} is stuck") for n in range(40_000)]))
    (message,) = digest.messages
    assert (message.count, len(message.lines), message.first, message.last, message.busiest) == (
        40_000, MOST_DISTINCT, 0.0, 39_999.0, 3600)
    assert len({line.text for line in message.lines}) == MOST_DISTINCT


def test_a_call_trace_is_one_event_and_what_another_driver_says_in_it_another() -> None:
    digest = fold(lines(
        (9.0, "------------[ cut here ]------------"),
        (9.0, "WARNING: CPU: 3 PID: 77 at fs/inode.c:123 iput+0x12/0x34"),
        (9.0, "Modules linked in: nvidia mlx5_core"),
        (9.0, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."),
        (9.0, "Call Trace:"), (9.0, " <TASK>"), (9.0, " do_unlinkat+0x11/0x22"),
        (9.0, "---[ end trace 0000000000000000 ]---")))
    assert sorted(message.kind.value for message in digest.messages) == ["line", "trace"]
    trace = next(message for message in digest.messages if message.kind is KernelEventKind.TRACE)
    assert (trace.head.startswith("WARNING: CPU: 3") and len(trace.lines) == 7
            and not any("Xid" in line.text for line in trace.lines))


@given(st.lists(st.tuples(st.one_of(st.none(), st.floats(0, 1e6)), st.text(max_size=60)), max_size=60))
def test_no_line_is_lost_and_none_counted_twice(pairs: list[tuple[float | None, str]]) -> None:
    digest = fold(lines(*pairs))
    alone = sum(message.count for message in digest.messages if message.kind is KernelEventKind.LINE)
    reported = sum(len(message.lines) for message in digest.messages
                   if message.kind is not KernelEventKind.LINE)
    assert digest.lines == len(pairs) and alone + reported <= len(pairs)
    assert all(message.count >= 1 and message.lines for message in digest.messages)
