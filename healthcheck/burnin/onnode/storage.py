"""Writes a file of its own to one mount and reads it back, timed and verified. Python 3.8.

The file is created in a folder of ours and unlinked at once. So a killed rank leaves at worst an empty folder
(open(2), unlink(2); on NFS a .nfs file that the client removes), which the next run on this machine removes.
Transfers bypass the page cache where the file system allows it (O_DIRECT). Where pages are cached all the
same (mincore(2)), a read is not measured. Caches behind the page cache (of a server, a controller or ZFS) are
not seen.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import errno
import itertools
import mmap
import os
import stat
import time
from typing import Any, Callable

from healthcheck.burnin.onnode.numa import first_line
from healthcheck.burnin.onnode.times import Spent

MOUNTS = "/proc/self/mountinfo"
# File system types that are local to a node (/proc/filesystems); others may be shared.
LOCAL_TYPES = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "bcachefs", "overlay", "tmpfs",
               "ramfs")
OWN_FOLDER = ".muster-burnin-"      # one for each user, in the mount's folder
OWN_FILE = "data"
BLOCK_BYTES = 4 << 20
BLOCKS_A_THREAD = 4     # in each round of transfers
LEAST_BYTES = 4096      # O_DIRECT needs whole sectors or pages
MOST_CACHED = 0.01      # share of the file beyond which a read does not measure storage
MOST_LEFTOVERS = 10000
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
WORD_KEY = 0x9E3779B97F4A7C15


class MountNotMeasured(Exception):
    """A mount that cannot be measured, though nothing is wrong with it."""


def storage_speed(rank: Any, device: Any, mounts: str = MOUNTS) -> None:
    """Writes, then reads, each within a limit of bytes and seconds; reports words that differ."""
    params = rank.params
    rank.pause(params["ramp_s"] * rank.number / rank.world)
    folder = opened_mount(params["path"])
    try:
        kind, source = mounted_at(params["path"], mounts)
        rank.facts["mount_type"], rank.facts["mount_source"] = kind, source
        rank.figures["size_bytes"] = float(params["bytes"])
        folder = below(folder, params["folder"])
        with_own_file(rank, device, folder)
        rank.figures["verified"] = 1.0
    except MountNotMeasured as error:
        rank.facts["not_measured"] = str(error)
    finally:
        os.close(folder)


def opened_mount(path: str) -> int:
    """A descriptor of the folder. Raises ValueError where it does not exist under exactly this path."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError("%s: %s" % (path, os.strerror(error.errno or 0))) from None
    real = os.readlink("/proc/self/fd/%d" % folder)
    if real != path:
        os.close(folder)
        raise ValueError("%s contains a symbolic link and is %s: use that path" % (path, real))
    return folder


def below(mount: int, path: str) -> int:
    """A descriptor of the folder below a mount, which is then closed; the mount's own for an empty `path`.
    ValueError for a folder in another file system, missing, or behind a link; the mount then stays open."""
    folder = mount
    for name in path.split("/") if path else ():
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            if folder != mount:
                os.close(folder)
            raise ValueError("the folder %s below the mount: "
                             "%s" % (path, os.strerror(error.errno or 0))) from None
        if folder != mount:
            os.close(folder)
        folder = inner
    if os.fstat(folder).st_dev != os.fstat(mount).st_dev:
        os.close(folder)
        raise ValueError("the folder %s is in another file system than the mount" % path)
    if folder != mount:
        os.close(mount)
    return folder


def mounted_at(path: str, mounts: str = MOUNTS) -> tuple[str, str]:
    """The type and source of the file system mounted there; raises ValueError where there is none."""
    found = ("", "")
    with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            words, more = fields.split(), rest.split()
            # The last one covers the others (Documentation/filesystems/proc.rst, 3.5).
            if len(words) > 4 and len(more) > 1 and unescaped(words[4]) == path:
                found = more[0], unescaped(more[1])
    if found[0] in ("", "autofs"):
        raise ValueError("%s is no mount point: nothing is mounted there" % path)
    return found


def unescaped(text: str) -> str:
    """A field of mountinfo, in which space, tab, newline and backslash are octal."""
    for code in ("\\040", "\\011", "\\012", "\\134"):
        text = text.replace(code, chr(int(code[1:], 8)))
    return text


def with_own_file(rank: Any, device: Any, folder: int) -> None:
    """Does all transfers with a file that is gone afterwards; raises MountNotMeasured where it cannot."""
    params = rank.params
    together = 1 if rank.facts["mount_type"] in LOCAL_TYPES else max(1, params["nodes"])
    enough_left(rank, folder, params["bytes"] * together)
    parent = own_folder(folder)
    name = own_name()
    try:
        remove_leftovers(parent)
        os.mkdir(name, 0o700, dir_fd=parent)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            file, how = own_file(inner)
            try:
                remove_folder(parent, name)
                Transfer(rank, device, folder, file, how).run()
            finally:
                os.close(file)
        finally:
            os.close(inner)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise MountNotMeasured("there was no space left: %s" % os.strerror(error.errno)) from None
        raise
    finally:
        remove_folder(parent, name)
        os.close(parent)
        try:
            os.rmdir(OWN_FOLDER + str(os.geteuid()), dir_fd=folder)
        except OSError:
            pass    # another node still uses it


def enough_left(rank: Any, folder: int, wanted: int) -> None:
    """Raises MountNotMeasured where so many more bytes would leave less free than the stated share."""
    room = os.fstatvfs(folder)
    free, keep = (room.f_bavail * room.f_frsize,
                  int(rank.params["leave_share"] * room.f_blocks * room.f_frsize))
    if free - wanted < keep:
        raise MountNotMeasured("%.3g GB are free and %.3g GB would be written: less than %.3g GB (%.0f %%) "
                               "would be left" % (free / 1e9, wanted / 1e9, keep / 1e9,
                                                  100 * rank.params["leave_share"]))


def own_folder(folder: int) -> int:
    """The folder of this user's runs; raises MountNotMeasured where it cannot be created safely."""
    name = OWN_FOLDER + str(os.geteuid())
    try:
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError:
            pass
        found = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, *NO_SPACE):
            raise MountNotMeasured("%s cannot be created there: "
                                   "%s" % (name, os.strerror(error.errno))) from None
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise MountNotMeasured("%s exists and is no folder" % name) from None
        raise
    held = os.fstat(found)
    mine = held.st_uid == os.geteuid() or held.st_uid == made_as(folder)
    if not mine or stat.S_IMODE(held.st_mode) & 0o022:
        os.close(found)
        raise MountNotMeasured("%s exists, and is not private to this user" % name)
    return found


def made_as(folder: int) -> int:
    """The owner of files that this user creates there, as a server may squash root; -1: impossible."""
    name = OWN_FOLDER + own_name()
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except OSError:
        return -1
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
    finally:
        os.rmdir(name, dir_fd=folder)


def own_name() -> str:
    """A unique name: host, boot, PID namespace, process, its start time, and a random part."""
    space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    return "%s.%s.%s.%d.%s.%s" % (os.uname().nodename.replace(".", "-"), boot_id(), space, os.getpid(),
                                  began(os.getpid()), os.urandom(4).hex())


def boot_id() -> str:
    """The id of this boot of the machine."""
    return first_line("/proc/sys/kernel/random/boot_id").replace("-", "")


def began(pid: int) -> str:
    """When a process began, in ticks since boot (proc_pid_stat(5), field 22); "" where there is none."""
    return (first_line("/proc/%d/stat" % pid).rpartition(")")[2].split() or [""] * 20)[19]


def is_dead(name: str) -> bool:
    """Whether a process of this machine that no longer runs made the folder; if unknown, False."""
    parts, own = name.split("."), own_name().split(".")
    if len(parts) != len(own) or parts[0] != own[0] or not parts[3].isdecimal():
        return False
    return parts[1] != own[1] or (parts[2] == own[2] and began(int(parts[3])) != parts[4])


def remove_leftovers(parent: int) -> None:
    """Removes what dead runs on this machine left."""
    with os.scandir(parent) as entries:
        names = [entry.name for entry in itertools.islice(entries, MOST_LEFTOVERS)]
    for name in names:
        if is_dead(name):
            remove_folder(parent, name)


def remove_folder(parent: int, name: str) -> None:
    """Removes a folder of ours with the one file that may be in it; what it cannot remove stays."""
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return
    try:
        try:
            os.unlink(OWN_FILE, dir_fd=inner)
        except OSError:
            pass
        os.rmdir(name, dir_fd=parent)
    except OSError:
        pass
    finally:
        os.close(inner)


def own_file(inner: int) -> tuple[int, str]:
    """A new file for this user only, and how it is read and written."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(OWN_FILE, flags | os.O_DIRECT, 0o600, dir_fd=inner), "O_DIRECT"
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    try:
        os.unlink(OWN_FILE, dir_fd=inner)   # some file systems create it before they refuse
    except FileNotFoundError:
        pass
    return os.open(OWN_FILE, flags, 0o600, dir_fd=inner), "page cache, synced and dropped"


class Transfer:
    """One file, written and read by several threads in rounds; only the transfers are timed."""

    def __init__(self, rank: Any, device: Any, folder: int, file: int, how: str) -> None:
        self.rank, self.torch, self.folder, self.file, self.how = rank, device.torch, folder, file, how
        self.spent = Spent()
        params = rank.params
        self.threads = max(1, min(64, params["threads"]))
        self.size = max(1, params["bytes"] // LEAST_BYTES) * LEAST_BYTES
        self.block = min(BLOCK_BYTES, self.size)
        self.words = self.block // 8
        # No file system compresses random blocks, and each block has another key.
        seed = int.from_bytes(os.urandom(7), "little")
        self.base = self.torch.empty(self.words, dtype=self.torch.int64)
        self.base.random_(-(1 << 63), (1 << 63) - 1, generator=self.torch.Generator().manual_seed(seed))
        count = min(self.threads * BLOCKS_A_THREAD, -(-self.size // self.block))
        # page-aligned, as O_DIRECT requires
        self.memory = [mmap.mmap(-1, self.block) for _ in range(count)]
        self.tensors = [self.torch.frombuffer(each, dtype=self.torch.int64) for each in self.memory]

    def run(self) -> None:
        """Writes and reads; raises MountNotMeasured where the file system is nearly full."""
        rank = self.rank
        rank.facts["storage"] = "%s, %d threads" % (self.how, self.threads)
        with concurrent.futures.ThreadPoolExecutor(self.threads) as pool:
            written, seconds = self.rounds(pool, "compute", self.size, self.write)
            rank.figures["storage_write_gb_s"] = written / seconds / 1e9
            os.fsync(self.file)
            os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)
            cached = self.cached(written)
            rank.at("verify")
            done, seconds = self.rounds(pool, "verify", written, self.read)
            if cached is not None and cached > MOST_CACHED:
                raise MountNotMeasured("%.0f %% of what was written stayed in the page cache, so reading it "
                                       "does not measure the storage" % (100 * cached))
            if cached is None and self.how != "O_DIRECT":
                raise MountNotMeasured("whether the written data stayed in the page cache is unknown")
            rank.figures.update({"storage_read_gb_s": done / seconds / 1e9, "check_share": self.spent.share})

    def rounds(self, pool: Any, phase: str, size: int,
               transfer: Callable[[Any, int, int], float]) -> tuple[int, float]:
        """Goes through the file until its end or the time limit; bytes moved, and seconds."""
        most_s, at, spent = self.rank.params["run_s"], 0, 0.0
        while at < size and (not most_s or spent < most_s):
            self.rank.at(phase, self.rank.iteration + 1)
            length = min(size - at, self.block * len(self.memory))
            spent += transfer(pool, at, length)
            at += length
        return at, max(spent, 1e-9)

    def blocks(self, at: int, length: int) -> list[tuple[int, int, int]]:
        """The blocks of a round: which memory, where in the file, how many bytes."""
        return [(number, at + number * self.block, min(self.block, length - number * self.block))
                for number in range(-(-length // self.block))]

    def key(self, offset: int) -> int:
        """The value that is XORed into all words of the block at this offset."""
        value: int = (offset // self.block + 1) * WORD_KEY % (1 << 64)
        return value - (1 << 64) if value >> 63 else value

    def write(self, pool: Any, at: int, length: int) -> float:
        """Writes one round; returns its seconds."""
        enough_left(self.rank, self.folder, length)
        blocks = self.blocks(at, length)
        for number, offset, _ in blocks:
            self.torch.bitwise_xor(self.base, self.key(offset), out=self.tensors[number])
        start = time.perf_counter()
        self.spent.begin()
        list(pool.map(lambda block: self.moved(os.pwritev, *block), blocks))
        if self.how != "O_DIRECT":
            os.fdatasync(self.file)
        self.spent.worked()
        return time.perf_counter() - start

    def read(self, pool: Any, at: int, length: int) -> float:
        """Reads one round and reports what differs from the written data; returns its seconds."""
        blocks = self.blocks(at, length)
        for number, _, _ in blocks:
            self.tensors[number].zero_()    # written data must not pass for read data
        start = time.perf_counter()
        self.spent.begin()
        list(pool.map(lambda block: self.moved(os.preadv, *block), blocks))
        took = time.perf_counter() - start
        self.spent.worked()
        for number, offset, size in blocks:
            expected = self.base[:size // 8] ^ self.key(offset)
            differs = self.tensors[number][:size // 8] != expected
            wrong = int(differs.sum())
            if wrong:
                first = int(differs.nonzero()[0])
                bits = (int(self.tensors[number][first]) ^ int(expected[first])) & ((1 << 64) - 1)
                self.rank.found_wrong(self.rank.iteration, wrong, [self.rank.number], False)
                self.rank.facts.setdefault("wrong_in", "byte %d of %s, bits %#x" % (
                                               offset + 8 * first, self.rank.params["path"], bits))
        self.spent.checked()
        return took

    def moved(self, move: Callable[..., int], number: int, offset: int, size: int) -> None:
        """All bytes of one block: a short transfer is continued; at the file's end the rest is unchanged."""
        done = 0
        view = memoryview(self.memory[number])
        while done < size:
            count = move(self.file, [view[done:size]], offset + done)
            self.rank.at("verify" if move is os.preadv else "compute")
            if count == 0:
                return
            done += count

    def cached(self, size: int) -> Any:
        """The share of the file's pages that is in the page cache; None: unknown."""
        try:
            mapped = mmap.mmap(self.file, size)
        except (OSError, ValueError):
            return None
        pages = -(-size // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * pages)()
        first = ctypes.c_char.from_buffer(mapped)
        failed = ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size),
                                           found)
        del first
        mapped.close()
        return None if failed else bytes(found).count(1) / pages
