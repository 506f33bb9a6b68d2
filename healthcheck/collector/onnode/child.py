"""A child of the collector, which may hang without hanging anything else, and the plainest of them: a command."""

from __future__ import annotations

import os
import resource
import signal
from typing import TYPE_CHECKING, Any, Dict, Optional

from healthcheck.collector.onnode.system import GRACE, SIGNALS, STDERR, capture, clock, failure, held, memory, process, slay, text

if TYPE_CHECKING:
    from healthcheck.collector.onnode.run import CollectorRun


class Child:
    """A process of ours, leader of its own session, and the memory files that it writes to."""

    def __init__(self, run: CollectorRun, key: str, seconds: float) -> None:
        self.run = run
        self.key = key
        self.out, self.err = memory(), memory()
        self.began = clock()
        self.seconds = seconds
        self.due = min(self.began + seconds, run.end)
        self.killed = False
        self.status = 0
        left = None if run.budget is None else int(max(0.0, run.budget - run.spent())) + 1
        self.pid = os.fork()
        if not self.pid:
            code = 70
            try:
                os.setsid()
                signal.set_wakeup_fd(-1)
                # Python ignores the last two, and what is ignored stays so across exec.
                for number in (*SIGNALS, signal.SIGCHLD, signal.SIGALRM, signal.SIGPIPE, signal.SIGXFSZ):
                    signal.signal(number, signal.SIG_DFL)
                # The channel's ends must not stay open in a child that outlives us, nor the helper's lifeline.
                if run.lifeline >= 0:
                    os.close(run.lifeline)
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(self.err, 1)
                os.dup2(self.err, 2)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                if left is not None:
                    # While it runs nobody looks at what it spends, but the kernel.
                    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
                    most = left + 1 if hard == resource.RLIM_INFINITY else min(left + 1, hard)
                    resource.setrlimit(resource.RLIMIT_CPU, (min(left, most), most))
                code = self.work()
            except BaseException as error:
                os.write(2, ("%s: %s" % (type(error).__name__, error)).encode("utf-8", "replace"))
            finally:
                os._exit(code)
        run.live.append(self)
        if key:
            run.folder.put(self.pid, key, seconds)

    def work(self) -> int:
        """In the child: does what it is for; returns the exit status."""
        raise NotImplementedError

    def ended(self, trouble: str) -> None:
        """In the parent: it has ended, or, if there is trouble to tell, cannot be ended."""
        raise NotImplementedError

    def overdue(self) -> bool:
        """Whether its time is over."""
        return clock() >= self.due

    def check(self) -> None:
        """Sees whether it has ended, and ends it when its time is over."""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            try:
                # While its number cannot be anybody else's yet.
                os.killpg(self.pid, signal.SIGKILL)
            except OSError:
                pass
            _, status, usage = os.wait4(self.pid, 0)
            self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            self.cpu = usage.ru_utime + usage.ru_stime
            # What the kernel counts for its limit is coarser than what it tells us here.
            self.run.exhausted |= self.run.budget is not None and self.status == -signal.SIGXCPU
            self.run.live.remove(self)
            self.run.folder.drop(self.pid)
            self.ended("")
        elif not self.overdue():
            return
        elif not self.killed:
            self.killed = True
            slay([self.pid])
            self.due = clock() + GRACE
            return
        else:
            self.run.live.remove(self)
            self.ended("cannot be killed (pid %d, state %s)" % (self.pid, process(self.pid)[0] or "?"))
        os.close(self.out)
        os.close(self.err)

    def note(self, trouble: str) -> str:
        unsafe = "" if self.run.folder.fd >= 0 else "no safe run folder: the next look cannot tell whether it is stuck"
        return "; ".join(part for part in (trouble, unsafe) if part)


def search_path() -> str:
    """Where commands are looked for: a user's own folders, and those that only root's have."""
    return os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"


class Command(Child):
    """An argv list that runs with no shell, no input and the C locale."""

    def __init__(self, run: CollectorRun, probe: Dict[str, Any]) -> None:
        self.probe = probe
        self.failed, self.fail = os.pipe()
        try:
            Child.__init__(self, run, "probe " + probe["id"], probe["seconds"])
        finally:
            os.close(self.fail)

    def work(self) -> int:
        try:
            os.dup2(self.out, 1)
            # The kernel bounds what it prints; no need to watch it grow.
            most, hard = max(4 * self.probe["limit"], 1 << 20), resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            os.execvpe(  # noqa: S606  (an argv list, and never a shell)
                self.probe["argv"][0], self.probe["argv"], dict(os.environ, LC_ALL="C", LANG="C", PATH=search_path()))
        except Exception as error:
            os.write(self.fail, b"%d" % (getattr(error, "errno", 0) or 0))
        return 127

    def ended(self, trouble: str) -> None:
        os.set_blocking(self.failed, False)
        try:
            unstarted = os.read(self.failed, 16)
        except OSError:
            unstarted = b""
        os.close(self.failed)
        data, size = held(self.out, self.probe["limit"], self.probe["tail"])
        noise, _ = held(self.err, STDERR, True)
        exit_status: Optional[int] = self.status
        if trouble:
            outcome, exit_status = "wedged", None
        elif unstarted:
            outcome, trouble = failure(OSError(int(unstarted), ""))
            exit_status = None
        elif self.killed:
            outcome, exit_status = "timeout", None
        elif size > self.probe["limit"] or self.status == -signal.SIGXFSZ:
            outcome = "truncated"
        else:
            outcome = "crashed" if self.status < 0 else "done"
        self.tell(capture(
            outcome, clock() - self.began, size, exit=exit_status, text=text(data), stderr=text(noise), note=self.note(trouble)))

    def tell(self, made: Dict[str, Any]) -> None:
        """In the parent: this is what it brought."""
        self.run.captures[self.probe["id"]] = made
