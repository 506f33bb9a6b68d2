"""How a user without rights makes the kernel log a text of his choice: mount options, names of processes,
files, control groups and ports.

Everything runs as `no one`, where need be in user, mount and network namespaces of his own, as Debian's
kernel allows every user. Each text is one that a fault would log; here no device has one. Source: the calls
of printk in Linux 6.1 that are named at each group below.
"""

from __future__ import annotations

import re
import shlex

from tests.testbed.vm.faults import Act, Fault
from tests.testbed.vm.machine import Machine

_XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus."
_SXID = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 32 LTSSM Fault Up"
_EXT4 = "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0"
_MCE = "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400"
_EDAC = "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0"
_AER = "pcieport 0000:00:01.0: AER: device recovery failed"
_NVME = "nvme nvme0: controller is down; will reset: CSTS=0x3, PCI_STATUS=0x10"
_PANIC = "Kernel panic - not syncing: Fatal exception"
_OOM = "Out of memory: Killed process 1 (init)"
_NULL = "BUG: unable to handle kernel NULL pointer dereference"
_OOPS = "Oops: 0002 [#1] PREEMPT SMP NOPTI"
_MOUNT = 165     # the number of mount(2) on x86-64

_PROGRAMS = {
    # TYPE OPTIONS: mount(2) of /tmp, whatever comes of it.
    "forge-mount": f"""#!/usr/bin/perl
my ($type, $options) = @ARGV;
my ($source, $target) = ("none", "/tmp");
syscall({_MOUNT}, $source, $target, $type, 0, $options);
""",
    # PROGRAM NAME: copies a program that dies to a file so named, and starts it.
    "forge-crash": """#!/usr/bin/perl
use File::Copy;
my ($program, $name) = @ARGV;
my $path = "/var/tmp/forge/$name";
copy("/usr/local/bin/train-$program", $path) or die;
chmod 0755, $path;
exec {$path} "x" if fork() == 0;
wait;
unlink $path;
""",
    # WHAT NAME: takes this name (prctl 15, PR_SET_NAME), and does one thing that the kernel logs with the
    # name of the process.
    "forge-name": """#!/usr/bin/perl
my ($what, $name) = @ARGV;
syscall(157, 15, $name, 0, 0, 0);
my %acts = (
    setitimer => sub { syscall(38, 0, 0, 0) },
    futex => sub { my $word = pack("L2", 0, 0); syscall(202, $word, 5, 1, 1, $word, (8 << 28) | (40 << 12)) },
    timeout => sub { socket(my $socket, 2, 1, 0); setsockopt($socket, 1, 20, pack("qq", -1, 0)) },
    netlink => sub { socket(my $socket, 16, 3, 0); send($socket, pack("LSSLLCxsiLLSSa4", 40, 18, 5, 1, 0, 0, 0, 1, 0, 0, 6, 4, "x"), 0) },
    mremap => sub { syscall(25, syscall(9, 0, 4096, 3, 0x22, -1, 0), 0, 4096, 1) },
    limit => sub { my $limit = pack("QQ", 1, 1 << 60); syscall(160, 2, $limit); syscall(9, 0, 4096, 3, 0x22, -1, 0) },
    sigreturn => sub { syscall(15) },
    argv => sub { my $path = "/var/tmp/forge/$name"; open(my $file, ">", $path); close($file); chmod 0755, $path; syscall(59, $path, 0, 0) },
    memory => sub {
        open(my $score, ">", "/proc/self/oom_score_adj"); print $score "1000"; close($score);
        my ($size, @all) = 32 << 20; push @all, "x" x $size while 1;
    },
    overcommit => sub { syscall(9, 0, 1 << 40, 3, 0x22, -1, 0) },
);
$acts{$what}->();
""",  # noqa: E501
    # NAME: a file system in user space that never answers, and a killed process so named that waits for it.
    "forge-hung": f"""#!/usr/bin/perl
my ($name) = @ARGV;
open(my $fuse, "+<", "/dev/fuse") or die;
my ($source, $target, $type) = ("none", "/var/tmp/forge/mnt", "fuse");
my $options = "fd=" . fileno($fuse) . ",rootmode=40000,user_id=0,group_id=0";
mkdir $target;
syscall({_MOUNT}, $source, $target, $type, 0, $options) == 0 or die;
sysread($fuse, my $asked, 1 << 20);
my (undef, undef, $unique) = unpack("LLQ", $asked);
syswrite($fuse, pack("LlQLLLLSSLLSSLL7", 80, 0, $unique, 7, 36, 65536, 0, 16, 16, 65536, 1, 0, 0, 0, (0) x 7));
my $child = fork();
if ($child == 0) {{ syscall(157, 15, $name, 0, 0, 0); stat "$target/x"; exit; }}
sysread($fuse, $asked, 1 << 20);
kill 9, $child;
sleep 10;
""",  # noqa: E501
    # MEMORY NAME PIDS: in a control group that the user owns, as that of his session is: an out-of-memory
    # kill of a process so named in a group MEMORY, and a refused fork in a group PIDS.
    "forge-group": """#!/bin/bash
at=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)
mkdir "$at/own" "$at/$1" "$at/$3"
echo $$ > "$at/own/cgroup.procs"
echo "+memory +pids" > "$at/cgroup.subtree_control"
echo 20M > "$at/$1/memory.max"
echo 1 > "$at/$3/pids.max"
( echo $BASHPID > "$at/$1/cgroup.procs"; exec forge-name memory "$2" )
( echo $BASHPID > "$at/$3/cgroup.procs"; /bin/true; : )
""",
}


def _as_no_one(*words: str) -> Act:
    """Starts a command as no one, once the programs above are there."""
    command = shlex.join(("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words))

    def act(up: Machine) -> None:
        _install(up)
        up.send(f"cd /var/tmp/forge; {command}")
    return act


def _install(up: Machine) -> None:
    for name, text in _PROGRAMS.items():
        up.run(f"cat > /usr/local/bin/{name} <<'END'\n{text}END\nchmod 755 /usr/local/bin/{name}")
    up.run("mkdir -p /var/tmp/forge; chown nobody /var/tmp/forge; modprobe -a fuse overlay")


def _logged(text: str) -> str:
    """The regular expression of a text as /dev/kmsg writes it: a backslash or a control character is an
    escape."""
    return re.escape("".join(rf"\x{ord(one):02x}" if one == "\\" or ord(one) < 32 else one for one in text))


def _mount(name: str, kind: str, options: str, says: str) -> Fault:
    return Fault(f"forged-mount-{name}",
                 f"nobody, in a user namespace: mount(2) of {kind} with these options: {options!r}",
                 _as_no_one("unshare", "-Urm", "forge-mount", kind, options), (_logged(says),))


def _upper(text: str) -> str:
    """Options of an overlay whose upper folder, which is not there, has this name: its commas are escaped."""
    return "lowerdir=/,upperdir=" + text.replace(",", "\\,") + ",workdir=/x"


def _crash(name: str, program: str, file: str, says: str) -> Fault:
    return Fault(f"forged-crash-{name}", f"nobody: a program dies ({program}) whose file is named {file!r}",
                 _as_no_one("forge-crash", program, file), (_logged(says),))


def _named(what: str, how: str, text: str, says: str) -> Fault:
    return Fault(f"forged-name-{what}", f"nobody: a process named {text[:15]!r} {how}",
                 _as_no_one("forge-name", what, text), (_logged(says),))


def _ports(name: str, how: str, commands: str, *says: str) -> Fault:
    return Fault(f"forged-ports-{name}", f"nobody, in a network namespace: {how}",
                 _as_no_one("unshare", "-Urmn", "bash", "-c", commands),
                 tuple(_logged(text) for text in says))


def _grouped(up: Machine) -> None:
    _install(up)
    up.send(shlex.join(("systemd-run", "--quiet", "--unit=session", "-p", "User=nobody", "-p", "Delegate=yes",
                        "forge-group", _XID, _EDAC, _PANIC)))


def _hung(up: Machine) -> None:
    """The report comes after five seconds, not two minutes, and once."""
    up.run("echo 5 > /proc/sys/kernel/hung_task_timeout_secs; echo 1 > /proc/sys/kernel/hung_task_warnings")
    _as_no_one("unshare", "-Urm", "forge-hung", _XID)(up)


# Mount options: logfc of fs/fs_context.c and its callers, fs/overlayfs/super.c. An option ends at a comma,
# and its name at an equals sign, but not in what overlay is given.
_MOUNTS = (
    _mount("ext4", "tmpfs", _EXT4, f"tmpfs: Unknown parameter '{_EXT4}'"),
    _mount("edac", "tmpfs", _EDAC, f"tmpfs: Unknown parameter '{_EDAC}'"),
    _mount("aer", "tmpfs", _AER, f"tmpfs: Unknown parameter '{_AER}'"),
    _mount("xid-cut", "tmpfs", _XID, "tmpfs: Unknown parameter 'NVRM: Xid (PCI:0000:3b:00): 79'"),
    _mount("sxid-cut", "tmpfs", _SXID,
           "tmpfs: Unknown parameter 'nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034'"),
    _mount("panic", "mqueue", _PANIC, f"mqueue: Unknown parameter '{_PANIC}'"),
    _mount("null", "cgroup2", _NULL, f"cgroup2: Unknown parameter '{_NULL}'"),
    _mount("oops", "cgroup", _OOPS, f"cgroup: Unknown subsys name '{_OOPS}'"),
    _mount("oom", "fuse", _OOM, f"fuse: Unknown parameter '{_OOM}'"),
    _mount("ext4-driver", "ext4", "error (device sda1): ext4_find_entry:1455",
           "ext4: Unknown parameter 'error (device sda1): ext4_find_entry:1455'"),
    _mount("nfs", "nfs", "server storage-a not responding; timed out",
           "nfs: Unknown parameter 'server storage-a not responding; timed out'"),
    _mount("nvme", "proc", f"hidepid={_NVME}",
           "proc: unknown value of hidepid - nvme nvme0: controller is down; will reset: CSTS=0x3"),
    _mount("mce", "proc", f"subset={_MCE}", f"proc: unsupported subset option - {_MCE}"),
    _mount("xid", "overlay", _upper(_XID), f"overlayfs: failed to resolve '{_XID}': -2"),
    _mount("sxid", "overlay", _upper(_SXID), f"overlayfs: failed to resolve '{_SXID}': -2"),
    _mount("xid-line", "overlay", _upper(f"/x\n{_XID}\n"),
           f"overlayfs: failed to resolve '/x\n{_XID}\n': -2"),
    _mount("mce-line", "tmpfs", f"x\n{_MCE}\n", f"tmpfs: Unknown parameter 'x\n{_MCE}\n'"),
    _mount("panic-line", "proc", f"hidepid=x\n{_PANIC}", f"proc: unknown value of hidepid - x\n{_PANIC}\n"),
)
# Names of files and processes: print_vma_addr of mm/memory.c, show_signal_msg of arch/x86/mm/fault.c, and the
# calls named by `how`.
_PROCESSES = (
    _crash("xid", "segfault", _XID[:-1], "NVRM: Xid (PCI:"),
    _crash("ext4", "undefined", _EXT4, f" in {_EXT4}["),
    _crash("edac", "divide", _EDAC, f"traps: {_EDAC[:15]}["),
    _crash("long", "segfault", f"{_EXT4}; {_EDAC}; {_AER}"[:250], f"{_EXT4}; {_EDAC}; {_AER}"[:250]),
    _crash("line", "segfault", f"x\n{_XID}", f" in x\n{_XID}["),
    _crash("line-alone", "segfault", f"x\n{_XID}\n", f" in x\n{_XID}\n["),
    _crash("line-traps", "protection", f"\n{_SXID}\n", f" in \n{_SXID}\n["),
    _named("setitimer", "calls setitimer without a value", _PANIC, f"{_PANIC[:15]} calls setitimer()"),
    _named("mremap", "moves memory as no one should", _NULL, f"{_NULL[:15]} ("),
    _named("futex", "shifts a futex by 40", _XID, f"futex_wake_op: {_XID[:15]} tries to shift"),
    _named("timeout", "sets a negative timeout", _MCE, f"`{_MCE[:15]}' (pid "),
    _named("netlink", "sends a malformed message", f"x\n{_MCE}",
           f"netlink: 'x\n{_MCE[:13]}': attribute type 4 has an invalid length"),
    _named("limit", "is at the limit of its memory", _OOPS, f"mmap: {_OOPS[:15]} ("),
    _named("sigreturn", "returns from no signal", _EXT4, f"traps: {_EXT4[:15]}["),
    _named("argv", "starts a file, named alike, without arguments", f"x\n{_NVME}\n",
           f"launched '/var/tmp/forge/x\n{_NVME}\n' with NULL argv"),
    _named("overcommit", "asks for a terabyte", _AER, f"comm: {_AER[:15]}, "),
    _named("memory", "takes all memory", _EDAC, f" ({_EDAC[:15]}) total-vm:"),
    Fault("forged-group",
          "nobody, in a control group of his own: an out-of-memory kill and a refused fork, in groups "
          "named by him", _grouped,
          (_logged(f"Memory cgroup stats for /system.slice/session.service/{_XID}:"),
           _logged("Killed process ") + r"\d+" + _logged(f" ({_EDAC[:15]})"),
           _logged(f"fork rejected by pids controller in /system.slice/session.service/{_PANIC}"))),
    Fault("forged-hung",
          "nobody, in a user namespace: a killed process waits for a file system of his own that "
          "never answers", _hung,
          (_logged(f"INFO: task {_XID[:15]}:") + r"\d+ blocked for more than",)),
)
# Names of ports: at most 15 characters, no space, colon or slash. The kernel's lines do not say which network
# namespace a port is of.
_PORTS = (
    _ports("bond", "a bond of a pair that is taken down and up again",
           "ip link add bond0 type bond miimon 100; ip link add eth0 type veth peer name peer; ip link set "
           "eth0 master bond0; "
           "ip link set peer up; ip link set bond0 up; sleep 2; ip link set peer down; sleep 1; ip link set "
           "peer up; sleep 1",
           "bond0: (slave eth0): link status definitely down, disabling slave",
           "bond0: now running without any active interface!"),
    _ports("bridge", "bridges whose names, and whose ports' names, are the beginnings of faults",
           "for name in NVRM BUG; do ip link add $name type bridge; ip link add Xid-$name type veth peer "
           "name p-$name; "
           "ip link set Xid-$name master $name; ip link set Xid-$name up; ip link set p-$name up; ip link "
           "set $name up; done; sleep 2",
           "NVRM: port 1(Xid-NVRM) entered blocking state", "BUG: port 1(Xid-BUG) entered disabled state"),
    _ports("rename", "a port is renamed", "ip link add 'Xid(79)' type dummy; ip link set 'Xid(79)' name NVRM",
           "NVRM: renamed from Xid(79)"),
    _ports("action", "a traffic action that logs a text of 31 characters",
           "ip link set lo up; tc qdisc add dev lo clsact; "
           "tc filter add dev lo egress matchall action simple sdata 'NVRM: Xid (PCI:0000:3b): 79, x'; echo "
           "x > /dev/udp/127.0.0.1/9",
           "simple: NVRM: Xid (PCI:0000:3b): 79, x_1"),
    _ports("action-line", "the same with a line feed", "ip link set lo up; tc qdisc add dev lo clsact; "
           "tc filter add dev lo egress matchall action simple sdata $'x\\nmce: [Hardware Error]: CPU 12'; "
           "echo x > /dev/udp/127.0.0.1/9",
           "simple: x\nmce: [Hardware Error]: CPU 12_1"),
)
FORGED = (*_MOUNTS, *_PROCESSES, *_PORTS)
