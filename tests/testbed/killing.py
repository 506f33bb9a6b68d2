"""Kills a process at its n-th change of a file, as kill -9 or a power cut may: the call is never made."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import warnings
from collections.abc import Callable

import pytest

# Of x86_64 (asm/unistd_64.h): what changes a file or a folder.
_CHANGES = {
    1: "write", 18: "pwrite64", 20: "writev", 40: "sendfile", 74: "fsync", 75: "fdatasync", 76: "truncate",
    77: "ftruncate", 82: "rename", 83: "mkdir", 84: "rmdir", 85: "creat", 86: "link",
    87: "unlink", 91: "fchmod",
    90: "chmod", 263: "unlinkat", 264: "renameat", 265: "linkat", 316: "renameat2", 326: "copy_file_range",
}
_TRACEME, _PEEKUSER, _SYSCALL, _SETOPTIONS = 0, 3, 24, 0x4200
_SYSGOOD_EXITKILL = 0x1 | 0x100000
_ORIG_RAX = 15 * 8


def changes(work: Callable[[], None], kill_at: int | None = None) -> int:
    """Runs `work` in a fork and gives how many changes it had begun; killed just before that number of them.

    Raises AssertionError where it failed otherwise; skips where processes cannot be traced.
    """
    if platform.machine() != "x86_64":
        pytest.skip("counts the system calls of x86_64")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    with warnings.catch_warnings():     # the fork runs no other thread's code (Python 3.12 and newer)
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        try:
            if libc.ptrace(_TRACEME, 0, None, None):
                os._exit(77)
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  (the parent sees that it failed)
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(78)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status):
        pytest.skip("needs ptrace(2)")
    libc.ptrace(_SETOPTIONS, pid, None, _SYSGOOD_EXITKILL)
    begun, entering, give = 0, False, 0
    while True:
        libc.ptrace(_SYSCALL, pid, None, give)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, os.WEXITSTATUS(status)
            return begun
        assert os.WIFSTOPPED(status), status
        give = 0
        if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
            give = os.WSTOPSIG(status)
            continue
        entering = not entering
        if entering and libc.ptrace(_PEEKUSER, pid, _ORIG_RAX, None) in _CHANGES:
            if begun == kill_at:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return begun
            begun += 1
