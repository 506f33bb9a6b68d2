"""Scrubbed recordings: nothing that tells whose machine it is is left,
and everything that is judged is what it was."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import string
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.outcome import NodeReport
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording, from_json, to_json
from healthcheck.scrub import Scrubbed, replaced, scrub
from healthcheck.sweep import saved
from inventory.model import Bmc, Node, PortPlan
from inventory.transport.base import Failure, Stage
from provisioning.demo.vpd import vital_product_data
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.tries import WHOLE, tries

DEMO = Path(__file__).resolve().parent.parent / "recordings" / "demo-sweep"
KEY = b"k" * 32


def judged(
    recording: Recording, node: Node, previous: Recording | None = None, sku: str = "hgx-h100",
) -> NodeReport:
    return assessed(recording, nodes=[node], before={recording.node: previous}, default_sku=sku).reports[0]


def assert_judged_alike(recording: Recording, node: Node, previous: Recording | None, made: Scrubbed) -> None:
    """The same statuses, and findings that differ in names only:
    each word of theirs is the same or one was a name."""
    raw, clean = judged(recording, node, previous), judged(made.recording, made.node, made.previous)
    assert (clean.state, clean.stage, clean.in_service) == (raw.state, raw.stage, raw.in_service)
    assert [result.rule for result in clean.results] == [result.rule for result in raw.results]
    for before, after in zip(raw.results, clean.results, strict=True):
        assert (after.status, after.severity, after.origin) == (before.status, before.severity,
                                                                before.origin), before.rule
        assert len(after.findings) == len(before.findings), before.rule
        for old, new in zip(before.findings, after.findings, strict=True):
            assert new.expected == old.expected
            assert re.sub(r"[\w.-]", "", str(new.observed)).strip() == re.sub(
                r"[\w.-]", "", str(old.observed)).strip(), (old, new)


def scrubbed_text(text: str, node: str = "qx7-node-0042", **more: str) -> str:
    """One line of the kernel's log after scrubbing: of a recording that holds nothing else, so that the line
    alone says what is a name."""
    look = replace(machine.recording(node),
                   captures={"kernel.log": machine.done(**{"/dev/kmsg": f"6,99,99000,-;{text}\n"})})
    made = scrub(look, Node(name=node, **more), key=KEY).recording  # type: ignore[arg-type]
    return made.captures["kernel.log"].files["/dev/kmsg"].text.splitlines()[-1].partition(";")[2]


def alone(look: Recording, *probes: str) -> Recording:
    """The same look with the captures of these probes and no others."""
    return replace(look, captures={probe: look.captures[probe] for probe in probes})


def of(**captures: Capture) -> Recording:
    """A look at a machine with these captures and no others."""
    return alone(machine.recording("qx7", **captures), *(name.replace("_", ".", 1) for name in captures))


# ---- facts stay


@pytest.mark.parametrize("name", ["gpu002", "gpu004"])     # the others are among those of test_scrub_replay
def test_a_scrubbed_recording_of_the_demo_is_judged_as_the_raw_one(name: str) -> None:
    manifest = saved.load_manifest(DEMO)
    looks = {look.node: (look, previous) for look, previous in saved.recordings(DEMO, manifest)}
    node = next(node for node in manifest.nodes if node.name == name)
    look, previous = looks[name]
    made = scrub(look, node, previous=previous, key=KEY)
    assert_judged_alike(look, node, previous, made)
    assert (name not in json.dumps(to_json(made.recording))
            and from_json(to_json(made.recording)) == made.recording)


# What the kernel says of faults, versions and places: none of it may change.
KEPT = [
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:1b:00 GPU-I:05 GPU-CI:00): 94, pid=7194, name=python3, Ch 00000008",
    "NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, An uncorrectable double bit error (DBE) has been detected on GPU "
    "in the framebuffer at partition 6",
    "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 14: bd80000000200179",
    "mce: [Hardware Error]: TSC 6f2f3d7b1c1 ADDR 3f2a9c0040 MISC 9001410ca02c86",
    "[Hardware Error]: CPU:24 (19:1:1) MC17_STATUS[Over|UE|MiscV|AddrV|-|TCC|SyndV|UECC|-|-|-]: "
    "0xbe00000000010015",
    "[Hardware Error]: Error Addr: 0x000000104a3c9e40",
    "{1}[Hardware Error]: event severity: fatal",
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#3_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1a3f22 "
    "offset:0x9c0 grain:32)",
    "pcieport 0000:80:01.1: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, "
    "(Requester ID)",
    "BIOS-e820: [mem 0x0000000100000000-0x000001ffffffffff] usable",
    "pci 0000:1b:00.0: reg 0x10: [mem 0x210000000000-0x210000ffffff 64bit pref]",
    "RIP: 0010:nvidia_ioctl+0x5a2/0xf10 [nvidia]",
    "RSP: 0018:ffffb2c3d4e5f6a7 EFLAGS: 00010246",
    "RAX: 0000000000000000 RBX: ffff9a3c5e7f0123 RCX: 0000000000000027",
    "ACPI Error: No handler for Region [POWR] (00000000b1a41d0a) [IPMI] (20230331/evregion-130)",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.08  Tue Mar  5 22:42:15 UTC 2024",
    "mlx5_core 0000:18:00.0: firmware version: 28.39.1002",
    "nvme nvme0: firmware version: 5.15.0.1",
    "ixgbe: driver version 5.1.0.4",
    "megaraid: v07.714.4.1",
    "ixgbe: driver 5.1.0.4 for kernel 6.5.0.2-generic, vmlinuz-6.5.0.2",
    "igb: fw 1.63.0.1, NVM 0.9.1.2-beta",
    "bonding: bearer of bad news, no authorization is needed",
    "usb 1-1: SerialNumber: 0000:00:14.0",
    "Serial: 8250/16550 driver, 32 ports, IRQ sharing enabled",
    "serial8250: ttyS0 at I/O 0x3f8 (irq = 4, base_baud = 115200) is a 16550A",
    "Command line: BOOT_IMAGE=/boot/vmlinuz-6.5.0-1007-nvidia root=/dev/nvme0n1p2 ro iommu=pt "
    "console=ttyS0,115200n8 mitigations=off",
    "pci 0000:1b:00.0: [10de:2330] type 00 class 0x030200",
    "pcieport 0000:80:01.1: AER: enabled with IRQ 67",
    "rtc_cmos 00:01: setting system clock to 2026-11-21T12:34:56 UTC (1795264496)",
    "systemd[1]: Started User Manager for UID 1000.",
    "systemd[1]: Created slice user-1000.slice",
    "systemd[1]: Starting user@1000.service...",
    "docker0: port 1(veth3) entered forwarding state",
    "python[90112]: segfault at 0 ip 00007f2d1c9e0b42 sp 00007ffd2d0a1d80 error 4 in "
    "libtorch_cpu.so[7f2d1a000000+4e00000]",
    "IPv6: ADDRCONF(NETDEV_CHANGE): eno1: link becomes ready",
    "lo: 127.0.0.1 ::1 0.0.0.0 255.255.255.0",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",
    "XFS (md1): Ending clean mount",
    "scsi 0:0:0:0: Direct-Access     ATA      SAMSUNG 404Q PQ: 0 ANSI: 6",
    "blk_update_request: dropped req@ffff of xprt@ffff9a3c5e7f0123, rpc@ffff9a3c5e7f0124",
    "mpt3sas: driver 10.1.0.4 loaded, kernel version 10.0.0.1, driver version: 10.12.0.7, driver 172.16.0.3 "
    "for kernel 10.0.0.2-generic",
    "NVRM: nvidia driver 10.4.0.1 (built for Linux)",
    "integrity: Loaded X.509 cert 'Microsoft Corporation UEFI CA 2011'",
    "mlx5_0: node_desc \"MT4129 ConnectX7 Mellanox Technologies\"",
    "serial: probe of 00:02 failed, Serial Number: unknown, usb 1-1: Mfr=1, Product=2, SerialNumber=3",
    "slurmctld: error: slurmd is not responding to slurmctld: connect failure",
    "systemd[1]: Mounted /sys/kernel/debug, sys-kernel-debug.mount: Deactivated, /usr/lib/systemd/systemd, "
    "/var/lib/docker",
    "nvidia-persistenced: opened /dev/nvidia0 and /proc/driver/nvidia/version, /usr/bin/nvidia-smi, "
    "/var/run/nvidia-persistenced/socket",
    "mlx5_core 0000:18:00.0: health_care:154:(pid 5): Health issue observed, firmware internal error, "
    "severity(3) ERROR:",
    "mlx5_core 0000:18:00.0: print_health_info:428:(pid 0): synd 0x1: firmware internal error, ext_synd "
    "0x8a4f",
    "mlx5_core 0000:18:00.0: Port module event: module 0, Cable unplugged",
    "AER: [12] Timeout, TLP Header: 40000001 0000000f fee00000 00000000 on 0000:3b:00.0/pcie/10",
    "input: MODALIAS=pci:v0000144Dd0000A80Asv0000144Dsd0000A801bc01sc08i02",
]


# What has the form of a name of a host, and is none: endings of files, fields, units, parameters, versions.
KEPT += [
    "mlx5_core.so, libnccl.so.1 and nvidia.ko were loaded by x.service, config.h.in and x.in were not",
    "python[7]: error: cannot import torch_ext from cpython-310.libnccl.so, to util.py and from setup.sh",
    "nccl.cpython-310-x86_64-linux-gnu.so, torch.distributed.run.py, debug.cc:38, kernel.util.cu:12, last.pt",
    "rd.lvm.lv and rd.lvm.vg, net.ipv4.tcp_rmem, kernel.perf_event_paranoid, org.freedesktop.systemd1",
    "ACPI BIOS Error (bug): Could not resolve symbol [\\_SB.PCI0.LPC0.EC], AE_NOT_FOUND, _TZ.THM0.AC",
    "rule.id of docker.info from 5.15.0.ga to 6.8.0.ms: dev.st=3, dev.probe.is(0), eth0.no",
    "systemd[1]: Started serial-getty@ttyS0.service, modprobe@efi_pstore.service, user@1000.service, "
    "ifup@eth0.service, ibup@mlx5_0.service",
    "fault in user access from 0x10: user space from there, user input from tty",
    "systemd[1]: Started getty@tty1.service, dbus.socket, user-1000.slice and init.scope.",
]


@pytest.mark.parametrize("line", KEPT)
def test_a_line_that_names_no_one_stays_as_it_is(line: str) -> None:
    assert scrubbed_text(line) == line


def test_such_lines_stay_as_they_are_beside_all_that_a_recording_holds_and_each_other() -> None:
    log = machine.KMSG + "".join(f"6,{number},99000,-;{line}\n" for number, line in enumerate(KEPT, 99))
    look = machine.recording("qx7-node-0042", kernel_log=machine.done(**{"/dev/kmsg": log}))
    made = scrub(look, Node(name="qx7-node-0042"), key=KEY).recording
    lines = made.captures["kernel.log"].files["/dev/kmsg"].text.splitlines()
    assert [line.partition(";")[2] for line in lines[-len(KEPT):]] == KEPT


@pytest.mark.parametrize("user", ["allen", "linux", "nvidia", "error", "verit"])
def test_a_user_who_is_called_as_the_kernel_calls_things_costs_no_fault(user: str) -> None:
    line = "NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus. severity: fatal"
    assert scrubbed_text(line, user=user) == line


def test_a_driver_version_and_a_kernel_release_stay_though_they_look_like_addresses() -> None:
    versions = machine.done(**{"/proc/sys/kernel/osrelease": "5.15.0.1\n",
                               "/sys/module/nvidia/version": "535.161.8.1\n"})
    look = of(host_versions=versions, gpu_nvml=machine.nvml())
    made = scrub(look, Node(name="qx7"), key=KEY).recording
    assert made.captures["host.versions"] == versions
    assert ('"driver": {"ok": "550.54.15"}' in made.captures["gpu.nvml"].text
            and '"ok": "NVIDIA H100 80GB HBM3"' in made.captures["gpu.nvml"].text)


def test_outcomes_sizes_exits_and_times_stay() -> None:
    look = of(docker_info=Capture(Outcome.TIMEOUT, seconds=10.0, bytes=7,
                                  note="wedged since 2026-11-21T06:00:00Z (pid 4711)"),
              kernel_log=machine.denied("/dev/kmsg"))
    made = scrub(look, Node(name="qx7"), key=KEY).recording
    assert made.captures["docker.info"] == look.captures["docker.info"] and made.received == look.received
    assert set(made.captures) == set(look.captures)


# ---- nothing is left

SECRETS = {
    "node": "zorba-gpu-0417", "domain": "hyperion-labs.com", "user": "kvothe", "other user": "denna.lackless",
    "sibling": "zorba-gpu-0418", "filer": "tehlu-nas07", "export": "arcanum", "mount": "nfs-haliax",
    "uuid": "98dfe477-21a7-4896-9296-06aeede4d857", "mig": "c7a1b2d3-5e6f-4a8b-9c0d-1e2f3a4b5c6d",
    "boot": "5ac7656f-bf2d-40c8-8132-3b861438264a", "root": "0c2d9c4e-7b59-4c58-8a0e-7e2f6d1a9b30",
    "machine": "4be0643f1d98573b97cdca98a65347dd", "gpu serial": "1652923004817",
    "adapter serial": "MT2314X07321",
    "disk serial": "S64FNE0R802879", "guid": "5c25730300a1b2c3", "mac": "b8:3f:d2:1c:7a:e5",
    "second mac": "94:6d:ae:0b:33:f1", "ip": "10.42.17.203", "public ip": "185.199.110.153",
    "ip6": "fd12:3456:789a:1::42", "fingerprint": "uNiVztksCsDhcc0u9e8BrqXdC5Zk3bEXm1pQyMcfGhI",
    "token": "wq8Zt71LmN0pVbR3", "password": "hunter2hunter2", "mail": "simmon@university.org",
    "ssid": "EolianGuest", "docker id": "7TRN:IPZB:QYBB:VPBQ:UMPP:KARE:6ZNR:XE6T:7EWV:PKF4:ZOJD:TPYS",
    "registry": "harbor.ctaeh.net", "label": "owner-ambrose",
    "container": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "leaf": "sw-trebon-3",
    "vg": "maedre--vg", "ppin": "5d8a1c3e7b20f4c1", "wwn": "5002538f31406d5d",
    "ssh key": "AAAAC3NzaC1lZDI1NTE5AAAAIGJ0dXpoZ3Rma2R0cGFzZGZnaGprbHF3ZXJ0",
}


def planted(s: dict[str, str], ports: int = 8) -> tuple[Recording, Node]:
    """A recording with every secret in the places and forms in which machines print it."""
    fqdn = f"{s['node']}.{s['domain']}"
    guid = s["guid"]
    colons = ":".join(guid[at: at + 4] for at in range(0, 16, 4))
    lines = [
        f"Command line: BOOT_IMAGE=/boot/vmlinuz-6.5.0 root=UUID={s['root']} ro "
        f"ip={s['ip']}::10.0.0.1:255.255.255.0:{s['node']}:eth0:off site.token={s['token']} "
        f"wifi_psk={s['password']} cloudkey={s['token']}",
        f"systemd[1]: Hostname set to <{fqdn}>.", f"systemd[1]: Hostname set to <{s['node'].upper()}>.",
        f"sshd[1]: Accepted publickey for {s['user']} from {s['public ip']} port 5123 ssh2: ED25519 "
        f"SHA256:{s['fingerprint']}",
        f"sudo: {s['user']} : TTY=pts/0 ; PWD=/home/{s['user']}/run ; USER=root ; COMMAND=/bin/cat",
        f"audit: acct=\"{s['other user']}\" hostname={s['sibling']} addr={s['ip6']}",
        f"nfs: server {s['filer']} not responding, still trying",
        f"nfs: server {s['filer']}.{s['domain']} OK", f"NVRM: GPU at PCI:0000:1b:00: GPU-{s['uuid']}",
        f"NVRM: GPU Board Serial Number: {s['gpu serial']}", f"NVRM: MIG-{s['mig']}/1/0",
        f"XFS (md1): Mounting V5 Filesystem {s['root'].upper()}",
        f"mlx5_core 0000:18:00.0: node_guid 0x{guid} port {colons}", f"ib0: gid fe80:0000:0000:0000:{colons}",
        f"sys image guid: {guid.upper()}", f"eno1: {s['mac']} and {s['mac'].replace(':', '-').upper()}",
        f"enx{s['mac'].replace(':', '')}: renamed from eth1",
        f"arp: {s['second mac']} is at {s['ip']}, ip-{s['ip'].replace('.', '-')} [{s['ip6']}]:22",
        f"mac {s['second mac'].replace(':', '')}", f"nvme nvme0: serial number {s['disk serial']}",
        f"/dev/disk/by-id/nvme-SAMSUNG_MZ_{s['disk serial']}", f"sd 0: naa.{s['wwn']}",
        f"mce: [Hardware Error]: TSC 6f2f PPIN {s['ppin']}",
        f"cgroup: docker-{s['container']}.scope oom, container {s['container'][:12]}",
        f"contact {s['mail']} about it", f"wlan0: SSID=\"{s['ssid']}\" joined",
        f"dockerd: pull {s['registry']}/team/image:1", f"device-mapper: /dev/mapper/{s['vg']}-root",
        f"cloud-init: ssh-ed25519 {s['ssh key']} {s['user']}@{s['node']}",
        f"agent: password={s['password']} \"api_key\": \"{s['token']}\"", f"machine-id {s['machine']}",
    ]
    kmsg = machine.KMSG + "".join(f"6,{100 + at},{at},-;{line}\n" for at, line in enumerate(lines))
    mountinfo = machine.MOUNTINFO + (
        f"40 22 0:50 / /mnt/{s['mount']}/scratch rw - nfs4 {s['filer']}:/exports/{s['export']} "
        f"rw,vers=4.2,clientaddr={s['ip']},addr={s['public ip']}\n"
        f"41 22 0:51 /home/{s['user']} /home/{s['user']} rw - cifs //{s['filer']}/{s['export']} "
        f"rw,username={s['user']},domain=X\n"
        f"42 22 253:0 / /srv rw - xfs /dev/mapper/{s['vg']}-data rw\n"
        f"43 22 0:52 / /var/lib/docker/overlay2/{s['container']}/merged rw - overlay overlay "
        f"rw,lowerdir=/var/lib/docker/{s['container']}\n"
    )
    docker = json.dumps({
        "ID": s["docker id"], "Name": fqdn, "Labels": [f"site={s['label']}"], "ServerVersion": "24.0.7",
        "Driver": "overlay2", "CgroupDriver": "systemd",
        "RegistryConfig": {"IndexConfigs": {s["registry"]: {"Name": s["registry"], "Mirrors": []}}},
        "HttpProxy": f"http://{s['user']}:{s['password']}@{s['ip']}:3128",
        "DockerRootDir": f"/home/{s['user']}/docker",
        "GenericResources": [{"NamedResourceSpec": {"Kind": "NVIDIA-GPU", "Value": f"GPU-{s['uuid']}"}}],
        "Swarm": {"NodeID": s["docker id"], "NodeAddr": s["ip"]}, "ServerErrors": [],
    }) + "\n"
    mounts = dict.fromkeys((
        "/", "/raid", "/home", f"/mnt/{s['mount']}/scratch", f"/home/{s['user']}", "/srv",
        f"/var/lib/docker/overlay2/{s['container']}/merged",
    ), machine.STATVFS)
    sysfs = machine.ports(ports)
    extra = {
        f"/sys/class/net/enx{s['mac'].replace(':', '')}/address": f"{s['mac']}\n",
        "/etc/machine-id": f"{s['machine']}\n", "/sys/class/infiniband/mlx5_0/node_guid": f"{colons}\n",
        "/sys/class/infiniband/mlx5_0/node_desc": f"{s['node']} mlx5_0\n",
        "/sys/class/dmi/id/product_serial": f"{s['disk serial']}\n", "/proc/sys/kernel/hostname": f"{fqdn}\n",
        "/proc/cmdline": f"root=UUID={s['root']} join.token={s['token']} "
        f"nfsroot={s['ip']}:/srv/{s['export']}\n",
    }
    sysfs = replace(sysfs, files={
        **sysfs.files, **{path: FileCapture(Outcome.DONE, text) for path, text in extra.items()}})
    look = machine.recording(
        s["node"], kernel_log=machine.done(**{"/dev/kmsg": kmsg}), port_sysfs=sysfs,
        filesystem_mounts=machine.done(**{"/proc/self/mountinfo": mountinfo, **mounts}),
        docker_info=Capture(Outcome.DONE, exit=0, text=docker,
                            stderr=f"WARNING: {s['user']}@{fqdn}: {s['ip']}\n", note=f"by {s['user']}"),
        hca_vpd=Capture(Outcome.DONE, files={"/sys/class/infiniband/mlx5_0/device/vpd": FileCapture(
            Outcome.DONE, vital_product_data("ConnectX-7 adapter card", "MCX75310AAS-NEAT",
                                             s["adapter serial"]).decode("utf-8", "surrogateescape"))}),
        gpu_nvml=machine.nvml(gpu0={"uuid": {"ok": f"GPU-{s['uuid']}"}, "serial": {"ok": s["gpu serial"]}}),
    )
    assert look.host is not None
    look = replace(look, host=replace(look.host, hostname=fqdn, boot_id=s["boot"]))
    node = Node(
        name=s["node"], address=s["ip"], user=s["user"], sku="hgx-h100", rack=f"rack-{s['export']}",
        leaf=(s["leaf"],), bmc=Bmc(s["public ip"]), ports={"0000:40:00.0": PortPlan(rail=0, leaf=s["leaf"])},
        labels={"who": s["label"]}, nvlink_domain=f"nvl-{s['export']}",
    )
    return look, node


def forms(value: str) -> set[str]:
    """A value and the ways in which tools write the same thing; small letters."""
    low = value.lower()
    found = {low, low.replace(":", "-"), low.replace("-", "--"), low.replace("-", r"\x2d")}
    if re.fullmatch(r"[0-9a-f:-]{12,}", low):
        bare = low.replace(":", "").replace("-", "")
        found |= {bare, ":".join(bare[at: at + 2] for at in range(0, len(bare), 2)),
                  ":".join(bare[at: at + 4] for at in range(0, len(bare), 4))}
    if re.fullmatch(r"[\d.]+\.[\d.]+", low):
        found |= {low.replace(".", "-")}
    if ":" in low and re.fullmatch(r"[0-9a-f:]+", low):
        with contextlib.suppress(ValueError):
            found.add(ipaddress.ip_address(low).exploded)
    return found


def leaks(made: Scrubbed, secrets: dict[str, str]) -> list[str]:
    """Independent of how scrubbing works: every form of every secret, looked for in the bytes of the file."""
    manifest = saved.SweepManifest("2026-11-21T00:00:00Z", "2026-11-21T00:00:01Z", False, "x", (made.node,),
                                   "hgx-h100", (), (), "", {})
    data = saved.encode_one(made.recording, made.previous, manifest, muster="0",
                     scrubbed=True).decode().lower().replace("\\\\", "\\")
    return [f"{kind}: {form} in ...{data[max(0, data.find(form) - 60): data.find(form) + 60]}"
            for kind, value in secrets.items() for form in forms(value) if form in data]


@pytest.fixture(scope="module")
def made() -> Scrubbed:
    """The planted recording, scrubbed, with itself as the earlier look."""
    look, node = planted(SECRETS)
    return scrub(look, node, previous=look, key=KEY)


def test_of_all_that_was_planted_nothing_is_left_and_everything_is_judged_the_same(made: Scrubbed) -> None:
    look, node = planted(SECRETS)
    assert leaks(made, {**SECRETS, "site": "zorba", "company": "hyperion", "mount": "haliax"}) == []
    assert_judged_alike(look, node, look, made)


SYLLABLES = st.lists(st.sampled_from(["zor", "vek", "tul", "qua", "mib", "pyx", "gro", "wix", "jev", "dof"]),
                     min_size=3, max_size=4).map("".join)
HEX = "0123456789abcdef"


def hexes(n: int) -> st.SearchStrategy[str]:
    # An identifier with letters and digits: 000...0 is none.
    return st.text(HEX, min_size=n - 2, max_size=n - 2).map(lambda text: f"{text}a7")


def uuids() -> st.SearchStrategy[str]:
    return hexes(32).map(lambda h: f"{h[:8]}-{h[8:12]}-4{h[13:16]}-9{h[17:20]}-{h[20:]}")


MACS = hexes(12).map(lambda h: ":".join(h[at: at + 2] for at in range(0, 12, 2)))
IPS = st.tuples(st.sampled_from([10, 172, 185]), st.integers(11, 255), st.integers(11, 255),
                st.integers(11, 255)).map(lambda t: ".".join(map(str, t)))
VALUES = st.fixed_dictionaries({
    **{kind: st.just(value) for kind, value in SECRETS.items()},
    "node": st.tuples(SYLLABLES, st.integers(1000, 9999)).map(lambda t: f"{t[0]}-gpu{t[1]}"),
    "domain": SYLLABLES.map(lambda word: f"{word}x.org"), "user": SYLLABLES.map(lambda word: f"u{word}"),
    "filer": SYLLABLES.map(lambda word: f"{word}-nas07"), "export": SYLLABLES.map(lambda word: f"x{word}"),
    "uuid": uuids(), "mig": uuids(), "boot": uuids(), "root": uuids(), "machine": hexes(32), "mac": MACS,
    "second mac": MACS, "ip": IPS, "guid": hexes(14).map(lambda h: f"5c{h}"), "container": hexes(64),
    "disk serial": st.text(string.ascii_uppercase + string.digits, min_size=10, max_size=16).map(
        lambda text: f"S{text}7X"),
    "gpu serial": st.integers(10**12, 10**13 - 1).map(str),
    "adapter serial": st.integers(10**9, 10**10 - 1).map("MT{}".format),
    "ip6": hexes(4).map(lambda h: f"fd12:3456:789a:1::1{h[1:]}"),
    "token": st.text(string.ascii_letters + string.digits, min_size=14, max_size=40).map(
        lambda text: f"t{text}9"),
})


# The captures that hold some of them; the others are the same in every example, and those of the test above.
WITH_SECRETS = ("kernel.log", "port.sysfs", "filesystem.mounts", "docker.info", "hca.vpd", "gpu.nvml")


@settings(deadline=None, max_examples=20 if WHOLE else 6)
@given(VALUES)
def test_whatever_the_secrets_are_none_is_left(secrets: dict[str, str]) -> None:
    look, node = planted(secrets, ports=1)
    made = scrub(alone(look, *WITH_SECRETS), node, key=KEY)
    assert leaks(made, secrets) == []
    assert from_json(to_json(made.recording)) == made.recording


def said_by(text: str, path: str, outcome: Outcome) -> Recording:
    """A look in which a command, a listing and a file hold this text."""
    return machine.recording("qx7", docker_info=Capture(outcome, exit=0, text=text, stderr=text, note=text),
                             filesystem_mounts=machine.done(
                                 **{"/proc/self/mountinfo": text, f"/{path}": text}))


@settings(deadline=None, max_examples=tries(150))
@given(st.text(max_size=300), st.text(max_size=60), st.sampled_from(list(Outcome)))
def test_whatever_a_node_says_the_recording_stays_one(text: str, path: str, outcome: Outcome) -> None:
    look = alone(said_by(text, path, outcome), "docker.info", "filesystem.mounts", "host.own-name")
    made = scrub(look, Node(name="qx7"), key=KEY).recording
    assert from_json(json.loads(json.dumps(to_json(made)))) == made


# ---- the same thing everywhere the same


def test_one_thing_has_one_stand_in_in_every_place_and_form(made: Scrubbed) -> None:
    gpu = json.loads(made.recording.captures["gpu.nvml"].text.splitlines()[1])["uuid"]["ok"]
    kmsg = made.recording.captures["kernel.log"].files["/dev/kmsg"].text
    assert re.fullmatch(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-9[0-9a-f]{3}-[0-9a-f]{12}", gpu)
    assert f"PCI:0000:1b:00: {gpu}" in kmsg and gpu in made.recording.captures["docker.info"].text
    mac = re.search(r"eno1: (00:00:5e:00:53:[0-9a-f]{2}) and (\S+)", kmsg)
    assert mac and mac[2] == mac[1].replace(":", "-").upper() and f"enx{mac[1].replace(':', '')}" in kmsg
    guid = re.search(r"node_guid 0x([0-9a-f]{16}) port (\S+)", kmsg)
    assert (guid and guid[2].replace(":", "") == guid[1] and f"fe80:0000:0000:0000:{guid[2]}" in kmsg
            and f"guid: {guid[1].upper()}" in kmsg)
    assert (made.recording.captures["port.sysfs"].files["/sys/class/infiniband/mlx5_0/node_guid"].text.strip()
            == guid[2])
    mounted = made.recording.captures["filesystem.mounts"].files
    points = {line.split(" ")[4] for line in mounted["/proc/self/mountinfo"].text.splitlines()}
    assert set(mounted) - {"/proc/self/mountinfo"} <= points
    address = re.search(r"clientaddr=([\d.]+)", mounted["/proc/self/mountinfo"].text)
    assert (address and ipaddress.ip_address(address[1]) in ipaddress.ip_network("192.0.2.0/24")
            and f"ip={address[1]}::" in kmsg)
    assert (re.search(r"PWD=/home/user\d+/run", kmsg)
            and re.search(r"serial number [A-Z]\d\d[A-Z]{3}\d[A-Z]\d{6}\n", kmsg))
    assert made.recording.node == made.node.name == "node1" and "Hostname set to <node1.domain" in kmsg


@pytest.mark.parametrize(("line", "secrets"), [
    ("nfs: server 10.42.17.203 not responding, still trying", ["10.42.17.203"]),
    ("kernel: 185.199.110.153 sent an invalid ICMP type to driver 172.16.4.9",
     ["185.199.110.153", "172.16.4.9"]),
    ("INFO: task 10.42.17.205-ma:4711 blocked for more than 120 seconds.", ["10.42.17.205"]),
    ("INFO: task 185.199.110.153-manager:4711 blocked", ["185.199.110.153"]),
    ("pool 10.42.17.206-10.42.17.207, 185.1.2.3-185.1.2.9",
     ["10.42.17.206", "10.42.17.207", "185.1.2.3", "185.1.2.9"]),
    ("Command line: nameserver=10.2.2.4 inst.ks=https://ksuser:kspw1@ks.acmef.edu/x "
     "netroot=iscsi:iuser:ipass99@10.2.2.5::3260::x",
     ["10.2.2.4", "ksuser", "kspw1", "acmef", "iuser", "ipass99", "10.2.2.5"]),
    ("proxy http://jakis:pa55@w0rd@10.42.17.221:3128/x and ftp://kvothe@tarbean/x",
     ["jakis", "pa55", "w0rd", "kvothe", "tarbean"]),
    ("Authorization: Bearer abcDEF-secret.x authorization: Basic dXNlcjpwYXNz",
     ["abcdef-secret", "dxnlcjpwyxnz"]),
    ("ll header: 00000000: ff ff ff ff ff ff b8 3f d2 1c 7a e8 08 06        .......?..z...",
     ["b8 3f d2", "1c 7a e8", "?..z"]),
    ("CIFS: VFS: \\\\auri-srv has not responded, CIFS: VFS: \\x5c\\x5cdevi-srv", ["auri", "devi"]),
    ("CIFS: Attempting to mount //auri-srv/share7", ["auri"]),
    ("NFS: state manager: check lease failed on NFSv4 server filerz with error 13", ["filerz"]),
    ("mount.nfs: access denied by server while mounting filerq:/vol/proj", ["filerq"]),
    ("LustreError: 11-0: eolianfs-OST0001-osc: failed; Lustre: Mounted eolianfs-client", ["eolianfs"]),
    ("BTRFS: device label fela-data devid 1 transid 99 /dev/sda2", ["fela-data"]),
    ("integrity: Loaded X.509 cert 'goldenbuild Secure Boot Module Signature key: "
     "4be0643f1d98573b97cdca98a65347dd'", ["goldenbuild"]),
    ("sshd[7]: Invalid user hemme from x; su: opened for user root by arwyl(uid=1000)", ["hemme", "arwyl"]),
    ("sudo:   wilem : TTY=pts/1 ; CRON[12]: (sovoy) CMD (x)", ["wilem", "sovoy"]),
    ("su: (to basil) deoch on pts/0", ["basil", "deoch"]),
    ("su[41]: FAILED SU (to basil) deoch on pts/0", ["basil", "deoch"]),
    ("pam_unix(su-l:session): session opened for user qj(uid=1001) by (uid=0)", ["qj"]),
    ("task 12 denied (user basil), userid=deoch(1000)", ["basil", "deoch"]),
    ("login: user 'basil' is locked; user deoch was removed", ["basil", "deoch"]),
    ("integrity: Loaded X.509 cert 'Elodin Corp: Signing Key: 4be0643f1d98573b97cdca98a65347dd'", ["elodin"]),
    ("integrity: Problem loading X.509 certificate 'Elodin Naming GmbH, CN=Fela'; elodin again",
     ["elodin", "naming", "fela"]),
    ("mlx5_0: node_desc \"elxgpu01 mlx5_0\" set; port of elxgpu01 up", ["elxgpu01"]),
    ("infiniband mlx5_0: Node Description: mauthen HCA-1", ["mauthen"]),
    ("cloud-init: instance-id i-0abc1234def567890, root vol-0aa11bb22cc33dd44 of ami-0f1e2d3c4b5a69788, "
     "i-1a2b3c4d",
     ["0abc1234def567890", "0aa11bb22cc33dd44", "0f1e2d3c4b5a69788", "1a2b3c4d"]),
    ("nvme-Amazon_Elastic_Block_Store_vol0aa11bb22cc33dd44", ["0aa11bb22cc33dd44"]),
    ("oci: ocid1.instance.oc1.iad.anuwcljtzzzq2iycabcdefghijklmnop", ["anuwcljtzzzq2iyc"]),
    ("slurmd: Unable to register with slurmctld: kilvin", ["kilvin"]),
    ("slurmd: error: Unable to contact slurm controller at kilvin (connect failure)", ["kilvin"]),
    ("slurmctld: error: Nodes elxaq not responding, node manet-b01 now responding", ["elxaq", "manet"]),
    ("slurmstepd: error: *** JOB 4711 ON manetq CANCELLED ***", ["manetq"]),
    ("slurmd[manetq]: NodeName=elxaq[01-16] SlurmctldHost=kilvin(10.0.0.9) ClusterName=artificery "
     "Account=naming",
     ["manetq", "elxaq", "kilvin", "artificery", "naming"]),
    ("board serial: KVOTHEARLIDEN; S/N SYMPATHY, Serial Number: abcdefgh",
     ["kvothearliden", "sympathy", "abcdefgh"]),
    ("br-4f1e2d3c4b5a: port 2(veth9c8b7a6) entered blocked state; cali1a2b3c4d5e6: up; docker "
     "veth9c8b7a6@if12",
     ["4f1e2d3c4b5a", "9c8b7a6", "1a2b3c4d5e6"]),
    ("wlan0: SSID Eolian Tavern joined; ssid: Cinder Haliax Ferule, freq 2412",
     ["eolian", "tavern", "cinder", "haliax", "ferule"]),
    ("systemd[1]: Mounting /data/elodin... data-elodin.mount: Deactivated", ["elodin"]),
    ("systemd[1]: /opt/elodin/naming: No such file; ExecStart=/usr/local/fishery/run",
     ["elodin", "naming", "fishery"]),
    ("audit: exe=\"/opt/elodin/bin/naming\" cwd=\"/data/fela\" name=/archive9/mola",
     ["elodin", "naming", "fela", "mola"]),
    ("audit: PROCTITLE proctitle=2F6F70742F656C6F6469 name=2F646174612F66656C61", ["656c6f6469", "66656c61"]),
    ("key /srv/keys/devi_ed25519: bad permissions, /home/basil/gaelet/x", ["devi", "basil", "gaelet"]),
    ("dial unix:///run/elodin/docker.sock: refused", ["elodin"]),
    ("Command line: rd.lvm.lv=maer/alveron root=LABEL=vintas resume=/dev/severen/caudicus "
     "rd.luks.name=UUID=x resume=LABEL=stapes",
     ["maer", "alveron", "vintas", "severen", "caudicus", "stapes"]),
    ("lvm: 2 logical volume(s) in volume group \"severen\" now active", ["severen"]),
    ("md: array 1a2b3c4d:5e6f7a8b:9c0d1e2f:3a4b5c6d assembled", ["1a2b3c4d", "3a4b5c6d"]),
    ("kernel version: 10.42.17.3 is unreachable, driver version 10.42.17.4:8080",
     ["10.42.17.3", "10.42.17.4"]),
    *((f"sshd: {name} closed the connection", ["zq"]) for name in (
        "gw.zqinst.gr", "zqinst.es", "zqinst.ru", "zqinst.hu", "zqinst.hk", "zqinst.il", "zqinst.za",
        "zqinst.nz", "zqinst.br", "zqinst.ie", "zqinst.science", "zqinst.systems", "n1.zqinst.info",
        "n1.zqinst.site", "n1.zqinst.at", "n1.zqinst.be", "n1.zqinst.no",
        "n1.zqinst.pt", "n1.zqinst.ro", "n1.zqinst.sg", "n1.zqinst.sa", "n1.zqinst.in", "n1.zqinst.it",
        "zqinst.ac.rs", "zqinst.ac.in",
    )),
    ("moved from zqone.at to zqtwo.be, server zqthree.no, backend zqfour.in, host zqfive.rs, source "
     "zqsix.info", ["zq"]),
    ("systemd[1]: openvpn@zqtunnel.service: Failed; wg-quick@zq-wire2.service, zqtunnel is blocked",
     ["zqtunnel", "zq", "wire"]),
    ("systemd[1]: Started ssh-tunnel@gw.zqinst.gr.service", ["gw.", "zqinst"]),
    ("SEL: User zqadm from 10.42.17.9 login; user zqops logged in via web, zqadm again",
     ["zqadm", "zqops", "10.42.17.9"]),
    ("fw: 10.42.17.5 sent SYN; rejected by driver 10.42.17.6 loaded host", ["10.42.17.5", "10.42.17.6"]),
])
def test_what_a_log_says_of_others_is_replaced(line: str, secrets: list[str]) -> None:
    made = scrubbed_text(line).lower()
    assert [secret for secret in secrets if secret in made] == []
    assert made.count("blocked") == line.count("blocked")


def scrubbed_file(probe: str, path: str, text: str, **more: str) -> str:
    """One file of one probe after scrubbing."""
    look = of(**{probe: machine.done(**{path: text})})
    made = scrub(look, Node(name="qx7", **more), key=KEY).recording  # type: ignore[arg-type]
    return made.captures[probe.replace("_", ".", 1)].files[path].text


def test_of_what_fstab_mounts_neither_server_nor_share_is_left_though_nothing_of_it_is_mounted() -> None:
    made = scrubbed_file("filesystem_plan", "/etc/fstab", (
        "# / was on /dev/nvme0n1p2 during installation\n"
        "UUID=0c2d9c4e-7b59-4c58-8a0e-7e2f6d1a9b30 / ext4 errors=remount-ro 0 1\n"
        "/dev/nvme0n1p3\tnone\tswap\tsw\t0\t0\n"
        "zqfiler:/export/home  /home nfs4 rw,mountaddr=zqback.inst.example.gr 0 0\n"
        "zqnas.inst.example.gr:/vol/zqdata /data nfs rw,sec=krb5 0 0\n"
        "//zqsmb/zqshare /smb cifs credentials=/etc/.c,username=zqu,password=p,domain=ZQCORP 0 0\n"
        "#zqold:/vol/zqattic /srv/zqattic nfs noauto 0 0\n"
        "zqmon1:6789,zqmon2:6789:/ /ceph ceph name=admin 0 0\n"
        "zqmgs1@tcp:10.7.7.7@o2ib1:/zqfs /lustre lustre _netdev,flock 0 0\n"
        "LABEL=zqlabel /srv\\040zq xfs defaults 0 0\n"
    ))
    assert ("zq" not in made.lower() and "inst" not in made.replace("installation", "")
            and "10.7.7.7" not in made)
    lines = made.splitlines()
    assert (lines[0] == "# / was on /dev/nvme0n1p2 during installation"
            and lines[2] == "/dev/nvme0n1p3\tnone\tswap\tsw\t0\t0")
    assert re.fullmatch(r"host\d+:/export/home  /home nfs4 rw,mountaddr=host\d+\.domain\d+\.example 0 0",
                        lines[3])
    assert re.fullmatch(r"host\d+\.domain\d+\.example:/dir\d+/dir\d+ /data nfs rw,sec=krb5 0 0", lines[4])
    assert re.fullmatch(r"//host\d+/dir\d+ /smb cifs "
                        r"credentials=/etc/\.c,username=user\d+,password=\w,domain=site\d+ 0 0", lines[5])
    assert re.fullmatch(r"#host\d+:/dir\d+/(dir\d+) /srv/\1 nfs noauto 0 0", lines[6])
    assert re.fullmatch(r"host\d+:6789,host\d+:6789:/ /ceph ceph name=admin 0 0", lines[7])
    assert re.fullmatch(r"host\d+@tcp:192\.0\.2\.\d+@o2ib1:/dir\d+ /lustre lustre _netdev,flock 0 0",
                        lines[8])


def test_a_server_of_fstab_is_the_same_in_the_log_and_its_mount_point_is_that_of_mountinfo() -> None:
    look = of(
        filesystem_plan=machine.done(**{"/etc/fstab": "zqnas:/vol/a /mnt/zq1 nfs rw 0 0\n"}),
        filesystem_mounts=machine.done(**{"/proc/self/mountinfo": machine.MOUNTINFO
                                          + "40 22 0:50 / /mnt/zq1 rw - nfs zqnas:/vol/a rw\n"}),
        kernel_log=machine.done(**{"/dev/kmsg": machine.KMSG + "6,99,99000,-;call of zqnas timed out\n"}))
    made = scrub(look, Node(name="qx7"), key=KEY).recording.captures
    server, point = made["filesystem.plan"].files["/etc/fstab"].text.split()[:2]
    assert (f" {point} rw - nfs {server} rw\n" in made["filesystem.mounts"].files["/proc/self/mountinfo"].text
            and "zq" not in server + point)
    assert f"call of {server.partition(':')[0]} timed out" in made["kernel.log"].files["/dev/kmsg"].text


def test_of_the_domains_that_a_node_searches_none_is_left() -> None:
    text = ("nameserver 10.3.3.3\nsearch hpc.zqinst.gr zqinst.gr. zqlan zq local .\n "
            "domain\tzqdom.example.museum\noptions ndots:1\n")
    made = scrubbed_file("host_resolver", "/etc/resolv.conf", text)
    domain = r"domain\d+\.example"
    assert re.fullmatch(rf"nameserver 192\.0\.2\.\d+\nsearch {domain} {domain}\. {domain} {domain} local "
                        rf"\.\n domain\t{domain}\noptions ndots:1\n", made)
    assert len(set(re.findall(domain, made))) == 5


def test_a_domain_that_a_node_searches_is_replaced_in_its_log_too() -> None:
    resolver = machine.done(**{"/etc/resolv.conf": "search zqinst.museum zqlan\n"})
    log = machine.done(
        **{"/dev/kmsg": machine.KMSG + "6,99,99000,-;login.zqinst.museum and zqlan are unreachable\n"})
    made = scrub(of(host_resolver=resolver, kernel_log=log), Node(name="qx7"), key=KEY).recording
    said = made.captures["kernel.log"].files["/dev/kmsg"].text.splitlines()[-1]
    assert re.search(r";login\.domain\d+\.example and domain\d+\.example are unreachable", said), said


def test_of_docker_registries_proxies_and_the_swarm_nothing_is_left() -> None:
    info = {
        "HttpProxy": "http://bastx:s3cr3tpw@proxyq.corp:3128",
        "NoProxy": "10.0.0.0/8,.acmex.internal,gpuhostq",
        "Swarm": {"Cluster": {"Spec": {"Name": "acmex-swarm", "Labels": {"kowner": "vbob"}}, "TLSInfo": {
            "TrustRoot": "-----BEGIN CERTIFICATE-----\nMIIBajCCARCgAwIBAgIUabcdef\n",
            "CertIssuerSubject": "MBMxETAPBgNVBAMTCHN3YXJt"}}},
        "RegistryConfig": {"IndexConfigs": {name: {"Name": name, "Mirrors": ["http://mirrorq:5000/"]}
                                            for name in ("reg.acmex.io:5000", "regq:5000")}},
        "ProductLicense": "Licensed to Acmex Inc",
    }
    look = of(docker_info=Capture(Outcome.DONE, exit=0, text=json.dumps(info)))
    text = scrub(look, Node(name="qx7"), key=KEY).recording.captures["docker.info"].text
    raw = ("bastx", "s3cr3tpw", "proxyq", "acmex", "gpuhostq", "kowner", "vbob", "miibaj", "mbmxet",
           "mirrorq", "regq")
    assert [word for word in raw if word in text.lower()] == []
    registries = json.loads(text)["RegistryConfig"]["IndexConfigs"]
    assert (len(registries) == 2 and all(name == registry["Name"] and name.endswith(":5000")
                                         for name, registry in registries.items()))


def test_of_docker_plug_ins_runtimes_and_errors_nothing_is_left() -> None:
    info = {
        "Plugins": {"Volume": ["local", "elodinvol", "vieras/naming:latest"], "Network": ["bridge"],
                    "Authorization": ["masterauth"], "Log": ["json-file"]},
        "Runtimes": {"runc": {"path": "runc"},
                     "sygaldry-rt": {"path": "/opt/elodin/bin/kilvinrt",
                                     "runtimeArgs": ["--root", "/data/mola"]},
                     "io.containerd.runc.v2": {"path": "runc"}},
        "DefaultRuntime": "sygaldry-rt", "InitBinary": "docker-init",
        "ClientInfo": {"Plugins": [{"Name": "buildx", "Path": "/usr/libexec/docker/cli-plugins/docker-buildx",
                                    "Vendor": "Docker Inc."},
                                   {"Name": "relar", "Path": "/opt/medica/docker-relar",
                                    "Vendor": "Cealdish Bank"}]},
        "ServerErrors": ["ERROR: authorization denied by plugin masterauth: user \"arwyl\" is not allowed",
                         "cannot run sygaldry-rt for (user hemme)", "open /srv/fishery/daemon.json: failed"],
    }
    look = of(docker_info=Capture(Outcome.DONE, exit=0, text=json.dumps(info)))
    text = scrub(look, Node(name="qx7"), key=KEY).recording.captures["docker.info"].text
    raw = ("elodin", "vieras", "naming", "masterauth", "sygaldry", "kilvin", "mola", "relar", "medica",
           "cealdish", "arwyl", "hemme", "fishery")
    assert [word for word in raw if word in text.lower()] == []
    after = json.loads(text)
    assert (after["Plugins"]["Log"] == ["json-file"] and after["Plugins"]["Volume"][0] == "local"
            and after["InitBinary"] == "docker-init")
    assert (after["Runtimes"]["runc"] == {"path": "runc"} and after["DefaultRuntime"] in after["Runtimes"]
            and len(after["Runtimes"]) == 3)
    assert after["ClientInfo"]["Plugins"][0] == info["ClientInfo"]["Plugins"][0]  # type: ignore[index]


def test_the_prefix_of_an_interface_and_of_a_cloud_id_stays() -> None:
    made = scrubbed_text("br-4f1e2d3c4b5a: veth9c8b7a6 on i-0abc1234def567890, veth9c8b7a6 left")
    found = re.fullmatch(r"br-[0-9a-f]{12}: (veth[0-9a-f]{7}) on i-[0-9a-f]{17}, (veth[0-9a-f]{7}) left",
                         made)
    assert found and found[1] == found[2] != "veth9c8b7a6"


def test_a_failure_reason_names_no_place_of_the_site() -> None:
    failed = Recording("qx7", 5.0, None,
                       Failure(Stage.CONNECT, "key /srv/keys/devi_ed25519: bad permissions"))
    made = scrub(failed, Node(name="qx7"), key=KEY).recording.failure
    assert made and re.fullmatch(r"key /srv/keys/dir\d+_ed25519: bad permissions", made.reason)


def test_twins_stay_twins_and_different_things_stay_different() -> None:
    serials = [f"16529230{n:05d}" for n in range(8)]
    look = of(
        gpu_nvml=machine.nvml(8, **{f"gpu{n}": {"serial": {"ok": serials[n % 7]}} for n in range(8)}))
    lines = scrub(look, Node(name="qx7"), key=KEY).recording.captures["gpu.nvml"].text.splitlines()[1:]
    after = [json.loads(line)["serial"]["ok"] for line in lines]
    assert (after[0] == after[7] and len(set(after)) == 7
            and all(len(serial) == 13 and serial.isdigit() for serial in after))
    assert not set(after) & set(serials)


def test_the_serial_number_of_a_rack_does_not_leave_and_stays_that_of_all_its_gpus() -> None:
    chassis = {f"gpu{n}": {"chassis_serial": {"ok": "1820224000123"}, "slot_number": {"ok": 9}}
               for n in range(8)}
    text = scrub(of(gpu_nvml=machine.nvml(8, **chassis)), Node(name="qx7"),
                 key=KEY).recording.captures["gpu.nvml"].text
    gpus = [json.loads(line) for line in text.splitlines()[1:]]
    (after,) = {gpu["chassis_serial"]["ok"] for gpu in gpus}
    assert after != "1820224000123" and "1820224000123" not in text and len(after) == 13
    assert gpus[0]["slot_number"] == {"ok": 9}


def test_another_key_gives_other_stand_ins() -> None:
    look, node = planted(SECRETS)
    one, two = (scrub(alone(look, "docker.info"), node, key=bytes([n]) * 32).recording.host for n in (1, 2))
    assert one and two and one.boot_id != two.boot_id


def test_a_node_of_a_profile_is_judged_under_it_after_scrubbing_too() -> None:
    look = of(kernel_log=machine.denied("/dev/kmsg"), docker_info=machine.docker_denied())
    node = Node(name="qx7", sku="hgx-h100", profile="unprivileged")
    assert_judged_alike(look, node, None, scrub(look, node, key=KEY))


def test_a_trend_is_reported_of_the_scrubbed_look_as_of_the_raw_one() -> None:
    before = of(port_sysfs=machine.ports(8, **{"mlx5_1.link_downed": "1"}))
    after = of(port_sysfs=machine.ports(8, **{"mlx5_1.link_downed": "5"}))
    node = Node(name="qx7", sku="hgx-h100")
    made = scrub(after, node, previous=before, key=KEY)
    raw = {result.rule: result.status for result in judged(after, node, before).results}
    assert raw["port-link-downed"].value == "fail"
    assert {result.rule: result.status
            for result in judged(made.recording, made.node, made.previous).results} == raw


def test_the_reason_of_a_node_that_was_not_reached_is_scrubbed_too() -> None:
    failed = Recording("zorba17", 5.0, None,
                       Failure(Stage.CONNECT,
                               "10.9.8.7:22 refused kvothe@zorba17.acme-corp.com; see /home/kvothe/.ssh"))
    made = scrub(failed, Node(name="zorba17", user="kvothe"), key=KEY)
    assert made.recording.failure == Failure(
        Stage.CONNECT, "192.0.2.1:22 refused user1@node1.domain1.example; see /home/user1/.ssh")


def test_a_name_that_was_cut_in_two_is_not_left_in_part() -> None:
    text = machine.KMSG + "6,99,99,-;NVRM: GPU-98dfe477-21a7-48"
    log = Capture(Outcome.DONE, files={"/dev/kmsg": FileCapture(Outcome.TRUNCATED, text)})
    made = scrub(of(kernel_log=log), Node(name="qx7"), key=KEY).recording
    kept = made.captures["kernel.log"].files["/dev/kmsg"].text
    assert "98dfe477" not in kept and kept.startswith(machine.KMSG[:60])


@pytest.mark.parametrize(("lines", "seconds"), [(1_000, 3), pytest.param(8_000, 20, marks=pytest.mark.slow)])
def test_a_long_log_takes_seconds_and_not_minutes(lines: int, seconds: float) -> None:
    import time

    line = ("6,{0},{0},-;mlx5_core 0000:18:00.0: 10.1.{1}.{2} {0:012x} host zorba{2} serial S64FNE{0} "
            "GPU-98dfe477-21a7-4896-9296-{0:012x}\n")
    text = "".join(line.format(n, n // 250 % 250, n % 250) for n in range(lines))
    began = time.process_time()
    scrub(of(kernel_log=machine.done(**{"/dev/kmsg": text})), Node(name="qx7"), key=KEY)
    assert time.process_time() - began < seconds


@pytest.mark.parametrize("text", ["a" * 100_000, "0:" * 50_000, "1." * 50_000, "Aa1" * 33_000,
                                  "/home/" * 16_000, "=\"" * 33_000, "-" * 100_000])
def test_a_line_made_to_upset_patterns_takes_seconds_and_not_minutes(text: str) -> None:
    import time

    began = time.process_time()
    scrub(of(docker_info=Capture(Outcome.DONE, exit=0, text=text)), Node(name="qx7"), key=KEY)
    assert time.process_time() - began < 10


def test_the_tally_is_in_words() -> None:
    assert replaced({"host name": 3, "MAC address": 2, "SSID": 1}) == "3 host names, 2 MAC addresses, 1 SSID"
    assert replaced({}) == "nothing"
