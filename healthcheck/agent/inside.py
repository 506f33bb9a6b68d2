"""Has the collector look at the machine from another process's namespaces, as from a container it must.

Python and the collector come from the container; once they are loaded, the collector's process enters the
mount, network, UTS and IPC namespaces of the host's first process, so that files, mounts, tools and NVML are
those that jobs on the host see, and the host needs no Python. Python 3.8.
"""

from __future__ import annotations

# Appended to the collector's text. What it loads later would not be found in the host's files.
_ENTER = '''

def _inside(pid, inner):
    def entered(nonce, document, source):
        import ctypes, fnmatch, functools, string, tempfile, threading
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            spaces = [os.open("/proc/%d/ns/%s" % (pid, name), os.O_RDONLY | os.O_CLOEXEC)
                      for name in ("uts", "ipc", "net", "mnt")]
        except OSError as error:
            sys.exit("the namespaces of process %d cannot be entered: %s" % (pid, error.strerror))
        for space in spaces:
            if libc.setns(space, 0):
                sys.exit("the namespaces of process %d cannot be entered: %s (it needs root, hostPID and a "
                         "privileged container)" % (pid, os.strerror(ctypes.get_errno())))
            os.close(space)
        os.chdir("/")
        os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        inner(nonce, document, source)
    return entered


main = _inside(%d, main)
'''


def inside(collector: bytes, pid: int) -> bytes:
    """The collector's text, for the namespaces of this process."""
    before, _, after = _ENTER.rpartition("%d")
    return collector + (before + str(pid) + after).encode()
