"""Child processes of the collector, which may hang without blocking anything else; and commands."""

from __future__ import annotations

import os
import resource
import signal
import warnings  # noqa: F401  (os.execvpe imports it: here once, and not in each child)
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence

from healthcheck.collector.onnode.shortage import OwnFailure, own_failure, why_ended
from healthcheck.collector.onnode.system import (
    GRACE,
    SIGNALS,
    STDERR,
    capture,
    clock,
    contents,
    failure,
    kill_all,
    memory,
    process,
    text,
)

if TYPE_CHECKING:
    from healthcheck.collector.onnode.run import CollectorRun


class Child:
    """A child process, leader of its own session, and the memory files that it writes to."""

    def __init__(self, run: CollectorRun, key: str, seconds: float) -> None:
        self.run = run
        self.key = key
        self.out = memory()
        try:
            self.err = memory()
        except OSError:
            os.close(self.out)
            raise
        self.began = clock()
        self.seconds = seconds
        self.deadline = min(self.began + seconds, run.end)
        self.killed = False
        self.status = 0
        left = None if run.budget is None else int(max(0.0, run.budget - run.spent())) + 1
        try:
            self.pid = os.fork()
        except OSError:
            os.close(self.out)
            os.close(self.err)
            raise
        if not self.pid:
            code = 70
            try:
                os.setsid()
                signal.set_wakeup_fd(-1)
                # Python ignores the last two, and an ignored signal stays ignored across exec.
                for number in (*SIGNALS, signal.SIGCHLD, signal.SIGALRM, signal.SIGPIPE, signal.SIGXFSZ):
                    signal.signal(number, signal.SIG_DFL)
                # A child that outlives us must keep neither the channel nor the helper's lifeline open.
                if run.lifeline >= 0:
                    os.close(run.lifeline)
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(self.err, 1)
                os.dup2(self.err, 2)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                if left is not None:
                    # While it runs only the kernel watches its CPU time.
                    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
                    most = left + 1 if hard == resource.RLIM_INFINITY else min(left + 1, hard)
                    resource.setrlimit(resource.RLIMIT_CPU, (min(left, most), most))
                code = self.work()
            except BaseException as error:
                self.stumbled(error)
            finally:
                os._exit(code)
        run.live.append(self)
        if key:
            run.folder.put(self.pid, key, seconds)

    def work(self) -> int:
        """In the child: does its work and returns the exit status."""
        raise NotImplementedError

    def stumbled(self, error: BaseException) -> None:
        """In the child: an error ends its work with exit status 70."""
        message = own_failure(error) or "%s: %s" % (type(error).__name__, error)
        os.write(self.err, message.encode("utf-8", "replace"))

    def ended(self, trouble: str) -> None:
        """In the parent: the child has ended, or cannot be ended if there is trouble."""
        raise NotImplementedError

    def lacked(self, message: str) -> str:
        """In the parent: what it lacked if it ended by itself, with this message; see `why_ended`."""
        run = self.run
        return "" if self.killed else why_ended(self.status, message, run.short, run.budget is not None)

    def overdue(self) -> bool:
        """Whether its time is over."""
        return clock() >= self.deadline

    def check(self) -> None:
        """Handles its end, and kills it when its time is over."""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            try:
                # Before wait4: its number cannot belong to another process yet.
                os.killpg(self.pid, signal.SIGKILL)
            except OSError:
                pass
            _, status, usage = os.wait4(self.pid, 0)
            self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            self.cpu = usage.ru_utime + usage.ru_stime
            # The kernel counts more coarsely for its limit than for this usage.
            self.run.exhausted |= self.run.budget is not None and self.status == -signal.SIGXCPU
            self.run.live.remove(self)
            self.run.folder.drop(self.pid)
            self.ended("")
        elif not self.overdue():
            return
        elif not self.killed:
            self.killed = True
            kill_all([self.pid])
            self.deadline = clock() + GRACE
            return
        else:
            self.run.live.remove(self)
            self.ended("cannot be killed (pid %d, state %s)" % (self.pid, process(self.pid)[0] or "?"))
        os.close(self.out)
        os.close(self.err)

    def note(self, trouble: str) -> str:
        unsafe = ("" if self.run.folder.fd >= 0
                  else "no safe run folder: the next run cannot see whether it is stuck")
        return "; ".join(part for part in (trouble, unsafe) if part)


def search_path() -> str:
    """Where commands are searched: the user's PATH, and root's folders."""
    return os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"


def environment() -> Dict[str, str]:
    """What commands run in: the C locale, and the search path."""
    return dict(os.environ, LC_ALL="C", LANG="C", PATH=search_path())


def installed(names: Sequence[str]) -> str:
    """The first of these programs that is here, by name or by path; empty without one."""
    for name in names:
        if any(os.access(os.path.join(folder, name), os.X_OK) for folder in search_path().split(":")):
            return name
    return ""


class Command(Child):
    """An argv list that runs with no shell, no input and the C locale."""

    def __init__(self, run: CollectorRun, probe: Dict[str, Any]) -> None:
        self.probe = probe
        self.failed, self.fail = os.pipe()
        try:
            Child.__init__(self, run, "probe " + probe["id"], probe["seconds"])
        except OSError:
            os.close(self.failed)
            raise
        finally:
            os.close(self.fail)

    def work(self) -> int:
        os.dup2(self.out, 1)
        # The kernel bounds what it prints.
        most, hard = max(4 * self.probe["limit"], 1 << 20), resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        argv = self.probe["argv"]
        tools = self.probe.get("tools")
        tool = (installed([argv[0], *tools]) or argv[0]) if tools else argv[0]
        os.execvpe(tool, [tool, *argv[1:]], environment())  # noqa: S606  (an argv list, and never a shell)

    def stumbled(self, error: BaseException) -> None:
        # Its exit status must not be taken for one of the program, which has not started.
        message = "%d %s" % (getattr(error, "errno", 0) or 0, own_failure(error) or type(error).__name__)
        os.write(self.fail, message.encode("utf-8", "replace")[:4096])

    def ended(self, trouble: str) -> None:
        os.set_blocking(self.failed, False)
        try:
            unstarted = text(os.read(self.failed, 4096))
        except OSError:
            unstarted = ""
        os.close(self.failed)
        data, size = contents(self.out, self.probe["limit"], self.probe["tail"])
        noise, _ = contents(self.err, STDERR, True)
        exit_status: Optional[int] = self.status
        if trouble:
            outcome, exit_status = "wedged", None
        elif unstarted:
            number, _, own = unstarted.partition(" ")
            try:
                outcome, trouble = failure(OSError(int(number), "")) if int(number) else ("unable", own)
            except OwnFailure:
                outcome, trouble = "unable", own
            exit_status = None
        elif self.killed:
            outcome, exit_status = "timeout", None
        elif size > self.probe["limit"] or (self.status == -signal.SIGXFSZ and not self.run.short):
            outcome = "truncated"
        else:
            outcome = "crashed" if self.status < 0 else "done"
            trouble = self.lacked(text(noise) + text(data[-STDERR:]))
            if trouble:
                outcome = "unable"
        self.store(capture(outcome, clock() - self.began, size, exit=exit_status, text=text(data),
                           stderr=text(noise), note=self.note(trouble)))

    def store(self, made: Dict[str, Any]) -> None:
        """In the parent: keeps its capture."""
        self.run.captures[self.probe["id"]] = made
