"""A login with low limits makes our own programs fail: no rule may accuse the node for it, and the reason is
named.

The real collector looks at a healthy simulated DGX H100 under each limit, and the packaged rules judge what
it brought.
"""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.collector import reply
from healthcheck.model.outcome import NodeReport, NodeState, Status
from healthcheck.model.recording import Outcome, Recording
from inventory.transport.base import Failure, Reply, Stage
from provisioning.demo import build
from provisioning.demo.machine import write
from tests.scenarios import node
from tests.scenarios.conftest import Room
from tests.testbed import collector

# A user without any process; `ulimit -u` does not bind root.
USER = "61234"
# Where a kernel does not enforce a limit (gVisor has no RLIMIT_NPROC), or what fails is the whole node's,
# libc says so instead.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int number(const char *name) { const char *value = getenv(name); return value ? atoi(value) : -1; }
static int forks, opens;
pid_t fork(void) {
    static pid_t (*real)(void);
    if (!real) real = dlsym(RTLD_NEXT, "fork");
    if (number("SHIM_FORKS") >= 0 && forks++ >= number("SHIM_FORKS")) { errno = EAGAIN; return -1; }
    return real();
}
static int refused(const char *path) {
    const char *root = getenv("MUSTER_ROOT");
    if (number("SHIM_ERRNO") < 0 || !root || strncmp(path, root, strlen(root))) return 0;
    if (strstr(path, "/usr/bin/") || opens++ < number("SHIM_OPENS")) return 0;
    errno = number("SHIM_ERRNO");
    return 1;
}
int open(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    if (!real) real = dlsym(RTLD_NEXT, "open");
    va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more);
    return refused(path) ? -1 : real(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    if (!real) real = dlsym(RTLD_NEXT, "open64");
    va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more);
    return refused(path) ? -1 : real(path, flags, mode);
}
void *opendir(const char *path) {
    static void *(*real)(const char *);
    if (!real) real = dlsym(RTLD_NEXT, "opendir");
    return refused(path) ? NULL : real(path);
}
static int library;
void *dlopen(const char *name, int flags) {
    static void *(*real)(const char *, int);
    if (!real) real = dlsym(RTLD_NEXT, "dlopen");
    library = getenv("SHIM_DLERROR") && name && strstr(name, "libnvidia-ml");
    return library ? NULL : real(name, flags);
}
char *dlerror(void) {
    static char *(*real)(void);
    if (!real) real = dlsym(RTLD_NEXT, "dlerror");
    return library ? (library = 0, getenv("SHIM_DLERROR")) : real();
}
"""
SHIMS = [
    *({"SHIM_FORKS": str(forks)} for forks in (0, 1, 2, 3, 5)),
    *({"SHIM_ERRNO": str(number), "SHIM_OPENS": str(opens)}
      for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
      for opens in (0, 1, 40, 400, 900)),
    *({"SHIM_DLERROR": f"libnvidia-ml.so.1: {words}"} for words in (
        "cannot open shared object file: Too many open files", "failed to map segment from shared object",
        "cannot open shared object file: Too many open files in system",
        "cannot open shared object file: Error 24",
        "cannot create shared object descriptor: Cannot allocate memory")),
]
LIMITS = [
    *(("n", number) for number in (*range(4, 17), 20, 32, 48, 63, 64, 100)),
    *(("v", number) for number in (8_000, 12_000, 16_000, 20_000, 25_000, 30_000, 35_000, 40_000, 60_000,
                                   100_000, 400_000)),
    *(("d", number) for number in (1_000, 3_000, 6_000, 12_000, 50_000)),
    *(("u", number) for number in (1, 2, 3, 4, 5, 6, 8)),
    *(("f", number) for number in (0, 1, 16, 200)),
    *(("s", number) for number in (64, 128, 300)),
    ("t", 0), ("t", 1),
]
# The lowest and the highest of each limit, some between, and every fourth of what libc says. The slow tier
# has all.
FEW = frozenset({("n", 4), ("n", 12), ("n", 63), ("n", 64), ("v", 8_000), ("v", 25_000), ("v", 400_000),
                 ("d", 1_000), ("d", 50_000), ("u", 1),
                 ("u", 8), ("f", 0), ("f", 16), ("s", 64), ("t", 0), ("t", 1)})
REASON = re.compile(
    r"(EMFILE|ENFILE|ENOMEM|EAGAIN|EFBIG|E2BIG|SIGKILL|may (open|run|use|write) only \d+ .*\(ulimit "
    r"-[a-z]\))")


@pytest.fixture(scope="module")
def tree(room: Room) -> Iterator[Path]:
    at = room.folder / "limited"
    room.folder.chmod(0o755)    # for another user, too
    write(node.machine(), at,
          {name: shutil.which(name) or sys.executable for name in ("python3", "cat", "sleep")})
    libraries = build.build()
    shutil.copytree(libraries.folder, at / "libraries")
    shutil.copy(libraries.syscalls, at / "libraries" / "syscalls.so")
    source = at / "shim.c"
    source.write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", at / "libraries" / "shim.so", source, "-ldl"],
                   check=True)
    yield at
    shutil.rmtree(at)


def looked(tree: Path, before: Sequence[str], extra: Mapping[str, str]) -> Recording:
    """What the collector brings when it is started through `before`; its failure, where it could not even
    start."""
    env = {"PATH": f"{tree}/usr/bin", "MUSTER_NVML_SCENARIO": f"{tree}/.muster/nvml",
           "LD_LIBRARY_PATH": f"{tree}/libraries",
           "LD_PRELOAD": f"{tree}/libraries/syscalls.so", **extra}
    with collector.running(node.rules().probe_set(45.0).probes, tree, env=env, before=before,
                           seconds=20.0) as started:
        answer: Reply = started.reply(60.0)
        if answer.failure is not None:
            started.hang_up()
            started.process.wait(20)
            assert started.process.stderr is not None
            last = started.process.stderr.read().decode("utf-8", "replace").strip()
            return Recording(node.NODE.name, 1.0, None,
                             Failure(Stage.REPLY, f"{answer.failure.reason}: {last}"))
    seen = reply.decode(answer)
    assert seen.failure is None and seen.host is not None, seen.failure
    return replace(seen, node=node.NODE.name, received=seen.host.time)


def judged(seen: Recording, room: Room) -> NodeReport:
    return node.judged(seen, node.earlier(room.healthy), room.peers)


def check(seen: Recording, room: Room) -> None:
    """No rule fails, none that lost its measurement passes as if the node had no such thing, and each says
    why."""
    report = judged(seen, room)
    assert [(result.rule, result.findings) for result in report.results if result.status is Status.FAIL] == []
    if seen.failure is not None:
        assert report.state is NodeState.UNKNOWN
        return
    healthy = judged(node.at(room.healthy, seen.received), room)
    before = {result.rule: result.status for result in healthy.results}
    lost = {result.rule: result.reason for result in report.results
            if result.status is Status.UNKNOWN is not before[result.rule]}
    assert {rule: said for rule, said in lost.items() if not REASON.search(said)} == {}
    became = {result.rule for result in report.results
              if result.status is Status.SKIPPED is not before[result.rule]}
    assert became == set(), "skipped, as if the node had no such thing"


@pytest.mark.parametrize(("option", "number"), [
    pytest.param(*limit, id="ulimit-{}-{}".format(*limit), marks=[] if limit in FEW else [pytest.mark.slow])
    for limit in LIMITS])
def test_a_low_limit_of_the_login_is_no_fault_of_the_node_and_is_named(tree: Path, room: Room, option: str,
                                                                       number: int) -> None:
    user = [shutil.which("setpriv") or "setpriv", f"--reuid={USER}", f"--regid={USER}",
            "--clear-groups"] if option == "u" else []
    before = [*user, "/bin/sh", "-c", f'ulimit -{option} {number}; exec "$@"', "sh"]
    check(looked(tree, before, {}), room)


@pytest.mark.parametrize("shim", [
    pytest.param(shim, id="-".join(shim.values()), marks=[] if at % 4 == 0 else [pytest.mark.slow])
    for at, shim in enumerate(SHIMS)])
def test_an_error_of_ours_for_want_of_something_is_no_fault_of_the_node(tree: Path, room: Room,
                                                                        shim: dict[str, str]) -> None:
    preload = f"{tree}/libraries/shim.so:{tree}/libraries/syscalls.so"
    seen = looked(tree, (), {"LD_PRELOAD": preload, **shim})
    check(seen, room)
    assert seen.failure is not None or any(capture.outcome is Outcome.UNABLE
                                           for capture in seen.captures.values())


def test_a_driver_that_is_really_not_loaded_is_still_found(tree: Path, room: Room) -> None:
    scenario = tree / ".muster" / "nvml-off"
    scenario.write_text("init = 9\n")
    seen = looked(tree, (), {"MUSTER_NVML_SCENARIO": str(scenario)})
    failed = {result.rule for result in judged(seen, room).results if result.status is Status.FAIL}
    assert "driver-loads" in failed
