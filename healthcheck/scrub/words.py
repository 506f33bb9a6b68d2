"""Words that identify no one: what kernels, drivers, standard paths and checks use themselves,
and what everybody's machines name."""

from __future__ import annotations

# No user, host or folder that is called so is replaced in running text: the text would lose its meaning.
_ORDINARY = """
root admin administrator user users guest nobody daemon bin sys sync games man lp mail news uucp proxy backup
list irc sshd ntp chrony systemd messagebus syslog polkitd ubuntu debian centos rocky fedora rhel redhat suse
opensuse alma almalinux amazon ec2-user opc azureuser cloud-user vagrant docker containerd podman crio kubelet
kubernetes slurm munge nvidia mellanox intel amd dgx hgx gpu gpus cpu cpus node nodes host hosts localhost
local localdomain server servers client clients compute computes login head master worker workers control
cluster clusters rack racks leaf spine switch rail power pdu test demo example invalid default unknown none
null true false yes off linux unix windows kernel driver drivers module modules firmware version versions
release build bios uefi efi boot grub vmlinuz initrd image system service services session slice scope unit
target timer socket device devices path file files data dataset datasets scratch work home homes tmp temp var
opt srv usr lib libs lib64 libexec share shared etc run lock dev proc mnt media mount mounts export exports
nfs nfs4 cifs smb lustre ceph beegfs gpfs fuse overlay overlay2 tmpfs ext2 ext3 ext4 xfs btrfs zfs vfat bind
upper lower merged diff snap snaps core volumes volume pods pod plugins plugin csi pvc pv raid nvme ssd hdd
disk disks fast slow storage store cache swap swapfile swap.img img log logs journal spool archive archives
project projects proj group groups team teams site sites public private common apps app software sw tools tool
models model checkpoints checkpoint ckpt results result users1 lost+found mapper memory mem dimm bank channel
slot page error errors fault fatal failed failure failing warning critical info debug trace corrected
uncorrected uncorrectable correctable recoverable severity status state event events machine check exception
hardware edac mce aer ghes cper apei acpi pci pcie port ports link links downed down active init armed linkup
polling disabled enabled training infiniband ethernet roce ib mlx5 mlx4 rdma net network eth eno ens enp wlan
bond bridge veth vlan loop dm md sda sdb sdc vda vdb nvlink nvswitch nvrm xid sxid bus fallen fell lost reset
ecc hbm sram row remap remapper retired pending mig uvm drm modeset persistence fabric manager torch python
python3 bash sh perl java ray mpi mpirun nccl ucx openmpi train trainer trainers infer inference job jobs
batch task process thread worker0 name pid comm ppid uid gid auid exe cmd command line console tty ttys serial
usb scsi sata ata ahci ubuntu--vg ubuntu-vg ubuntu--lv ubuntu-lv ubuntu--vg-ubuntu--lv vg lv pool rpool bpool
tank dpool zroot vg0 rootvg centos-root root-lv x86 x86_64 amd64 aarch64 arm64 riscv smp preempt numa socket0
sockets cores tsc rcu mce0 memcg cgroup cgroup2 oom killed kill killer tcp udp o2ib o2ib0 tcp0 rdma0 ipv4 ipv6
tls ssl http https ssh dns ntp0 dhcp plt gnu libc glibc gcc binutils connection refused timed timeout timeouts
denied permission resolve resolved connect answer answers auth deadline reply running there loaded loading
unloading started starting finished stopped stopping mounted unmounted remounted available unavailable not
with from for and the this that have has had was were are but all any can cannot could must shall will would
should may might into over under reading read write writing writes reads open opened close closed change
changed changes lost0 left right first last next previous h100 h200 a100 b200 b300 gb200 gb300 l40 l40s v100
hpc ml llm cloud www storage0 fs fsx efs ebs s3 gcs azure aws gcp oci prod production staging develop
development research science cn c n gn hn sn ln mn bn xe gpfs0 fileserver filer nas netapp isilon vast weka
pure daemonset deployment statefulset namespace resource resources runtime runtimes runc
nvidia-container-runtime io root-dir reserved usable ordered mode quota options option type types size flags
flag code address addr rip rsp call stack end begin start stop xen kvm qemu vmware hypervisor guestfs virtio
balloon vfio iommu dmar smmu efivars efivarfs firmwares microcode tpm random seed key keys health healthy
unhealthy poll polling compromised syndrome assert asserted sensor temperature thermal throttle throttled
throttling excessive cable unplugged plugged transceiver lanes lane width speed degraded recovery recover
recovering detected received respond responding response space pages manager request requests input buffer
buffers program interface namespace command commands doorbell queue interrupt internal offline online blocked
hung stuck stall stalled panic bug taint tainted secret token password passwd cookie certificate x509 required
signature verification tainting taints ro rw
"""

# Words that paths are made of on every machine; elsewhere they may be names.
_STANDARD = """
local libexec lib32 libx32 include doc docs man1 info1 locale icons fonts etc conf config configs cfg d id ids
key keys pub pem crt cer csr ca certs cert rsa dsa ecdsa ed25519 authorized known ssh sshd gnupg gpg cache
caches state states pid pids sock socket sockets fifo pipe txt json yaml yml toml xml ini csv tsv md html htm
gz bz2 xz zst tar tgz zip rpm deb iso img qcow2 vmdk raw so ko la py pyc sh pl rb js go c h cpp hpp o a out
bak old orig new tmp swp lck db sqlite sql dat bin binary rc env service timer mount automount path slice
scope target netns user users uid gid container containers containerd enroot pyxis plugstack plugstack.conf
spank spank_pyxis spank_pyxis.so cdi docker dockerd docker.sock moby buildkit k8s k3s rke2 etcd cni crio criu
pods kubelet overlayfs snapshotter snapshotters fs io sha256 rootfs merged workdir shm mqueue hugepages
hostname hosts resolv nsswitch passwd shadow fstab mtab crontab cron daily hourly weekly monthly logrotate
rsyslog syslog journal messages auth dmesg wtmp btmp lastlog apt yum dnf dpkg pip conda venv virtualenv site
packages dist node npm cargo rust java jdk jre python cuda cudnn nccl nvidia mellanox ofed mlnx hpcx doca mft
nvme cgroup cgroups udev udevd dbus systemd networkd resolved logind polkit initramfs initrd grub sysctl
modprobe modules environment profile bashrc bash zsh history default defaults skel sudoers pam security
selinux apparmor audit auditd ld preload nvme0n kubepods burstable besteffort guaranteed cri crio machine
init0 sbin games spool cron at mail www html run main index manifest metadata status version versions release
releases current latest backup backups dump dumps crash core cores trace traces coredump kdump report reports
lost found trash snapshot snapshots imex quota aquota fileserver slurmd slurmctld slurmdbd slurm munge munged
prolog epilog prometheus grafana telegraf dcgm exporter exporters fabricmanager persistenced chrony ntp ipmi
bmc redfish snmp sssd krb5 ldap nfs lustre gpfs weka ssl tls x509 private public input output stdin stdout
stderr job jobs task tasks step steps workspace build builds dev test tests src source sources tmpfs ramdisk
entrypoint init start stop restart setup install uninstall update upgrade check health monitor agent daemon
server client helper wrapper
"""

# Words that the names of certificate authorities share, and who signs what everybody boots.
_AUTHORITIES = """
corp corporation inc ltd llc gmbh co company secure boot module modules signature signing sign key keys kernel
build time autogenerated microsoft uefi ca third party marketplace windows production pca option rom canonical
master authority certificate live patch redhat red hat enterprise linux driver update debian suse opensuse
fedora centos rocky almalinux oracle amazon nvidia mellanox intel amd vmware rsa ecdsa sha256 sha512 root
intermediate issuing platform vendor shim grub db dbx mok kek pk the and of for no is in ima evm integrity
mlnx dkms hpe dell lenovo supermicro regulatory wireless sforshee wens kpatch livepatch
"""

# Plug-ins and runtimes that container engines come with, or that everybody knows.
_ENGINE = """
local bridge host ipvlan macvlan null none overlay awslogs etwlogs fluentd gcplogs gelf journald json-file
logentries splunk syslog loki runc crun youki runsc gvisor kata kata-runtime kata-qemu kata-fc kata-clh
sysbox-runc nvidia nvidia-cdi nvidia-legacy nvidia-container-runtime io.containerd.runc.v1
io.containerd.runc.v2 io.containerd.runtime.v1.linux io.containerd.kata.v2 io.containerd.runsc.v1 buildx
compose scout init debug desktop dev extension feedback sbom swarm app ai cloud mcp model sandbox docker-init
tini rootlesskit
"""

# Parameters of the kernel's command line whose values tell of settings and not of somebody
# (admin-guide/kernel-parameters, systemd).
_PARAMETERS = """
boot_image ro rw quiet splash console earlycon earlyprintk iommu intel_iommu amd_iommu mitigations
numa_balancing hugepages hugepagesz default_hugepagesz transparent_hugepage isolcpus nohz_full rcu_nocbs pci
pcie_aspm pcie_ports intel_idle processor idle cgroup_enable systemd selinux apparmor security lsm audit net
biosdevname crashkernel nmi_watchdog watchdog panic oops softlockup_panic rd nvidia nvidia_drm nvme nvme_core
mlx5_core mlx4_core modprobe module_blacklist blacklist initcall_blacklist rootfstype rootflags rootdelay
rootwait fsck loglevel log_buf_len printk tsc clocksource cpufreq intel_pstate amd_pstate spectre_v2 pti l1tf
mds elevator scsi_mod raid libata acpi acpi_osi apic noapic swiotlb memmap mem init vga video consoleblank fb
drm swapaccount swap zswap kvm kvm_intel kvm_amd vfio_pci vfio_iommu_type1 efi efi_pstore ghes_disable mce
edac_mc page_poison slub_debug debug ipv6 plymouth vt usbcore usb ima root ip nfsroot initrd resume nameserver
"""

# Words that neither the rules nor the recordings hold: of kernel logs (drivers/acpi, drivers/tty/serial,
# mlx5), the file system hierarchy (hier(7)), nfs(5), fstab(5), resolv.conf(5),
# and `docker info` (API 1.44, SystemInfo).
_KERNEL = """
psu redundancy lost degraded asserted deasserted regained redundant sensor record
netdev flock o2ib nvidia uvm os acquire rwlock read write sleep wait down
mountaddr mountport mountproto mountvers clientaddr mounthost timeo retrans rsize wsize namlen acregmin
acregmax acdirmin acdirmax nconnect noresvport lookupcache local_lock powr serial8250 technologies alpha
beta edac hbm2e hbm3e srv opt home mnt media raid scratch sw swap local none search domain nameserver
options ndots attempts rotate pwd during installation was file system point dump pass key bad permissions
registryconfig indexconfigs mirrors genericresources namedresourcespec kind value swarm nodeid nodeaddr
localnodestate controlavailable httpproxy httpsproxy noproxy dockerrootdir defaultruntime runtimes plugins
serverversion cgroupdriver cgroupversion servererrors warnings indexserveraddress insecureregistrycidrs
secure official initbinary liverestoreenabled securityoptions operatingsystem ostype architecture ncpu
memtotal labels containers images driver driverstatus smb cifs ceph lustre krb5 krb5i krb5p credentials
username password e1000 e1000e 9xxx verify3u verify3s verify3p verify3b lvm lv vg org
freedesktop paranoid sb tz ga ifup ibup
"""

_PUBLIC = """
docker.io index.docker.io nvcr.io ghcr.io quay.io gcr.io registry.k8s.io k8s.io kubernetes.io kernel.org
ubuntu.com debian.org redhat.com fedoraproject.org nvidia.com mellanox.com intel.com amd.com github.com
github.io opencontainers.org freedesktop.org gnu.org docker.com lists.ubuntu.com example.com example.org
example.net launchpad.net memory.oom.group
"""

# Top-level domains that a name in running text is known by; not those that are endings of files as well (.so,
# .py, .sh).
TLDS = (
    "com|org|net|edu|gov|mil|io|ai|cloud|tech|dev|eu|local|internal|intern|lan|corp|intra|intranet|private|"
    "localdomain|invalid|example|test|arpa|xyz|biz|uk|de|fr|ch|nl|se|fi|dk|pl|cz|jp|cn|kr|tw|au|ca|us|br|hpc|"
    "ae|az|bg|cy|ee|eg|es|gr|hk|hr|hu|ie|il|iq|ir|ke|kw|kz|lu|mx|ng|np|nz|om|pk|ru|ua|ug|uy|uz|ve|vn|za|zm|"
    "zw|tz|science|systems|computer|center|institute|academy|university|digital|mobi|company|technology|asia|"
    "berlin|paris|london|nyc|hamburg|tokyo|swiss|scot|bayern|ruhr|brussels|vlaanderen|amsterdam|stockholm|"
    "quebec|cymru|wales|foundation"
)
# Those that are words, fields or endings as well: a name under one has three labels, or a word before it that
# speaks of a host.
WORDY_TLDS = (
    "ac|ad|af|ag|al|ao|aq|ar|as|at|aw|ax|ba|bb|bd|be|bf|bh|bi|bj|bm|bn|bo|bs|bt|bw|by|bz|cd|cf|cg|ci|ck|cl|"
    "cm|co|cr|cv|cw|cx|dj|dm|do|dz|ec|er|et|fj|fk|fm|fo|ga|gd|ge|gf|gg|gh|gi|gl|gm|gn|gp|gq|gs|gt|gu|gw|gy|"
    "hn|ht|id|im|in|is|it|je|jm|jo|kg|kh|ki|km|kn|kp|ky|lb|lc|li|lk|lr|ls|lt|lv|ly|ma|mc|me|mg|mh|mk|mn|mo|"
    "mp|mq|mr|ms|mt|mu|mv|mw|my|mz|na|nc|ne|nf|ni|no|nr|nu|pa|pe|pf|pg|ph|pn|pr|pt|pw|qa|re|ro|rw|sa|sb|sc|"
    "sd|sg|si|sk|sl|sn|sr|st|sv|sy|sz|tc|td|tf|tg|th|tj|tk|tl|tm|tn|to|tr|tt|tv|va|vc|vg|vi|vu|wf|ws|ye|yt|"
    "info|site|online|network|zone|team|group|global|health|education|energy|software|solutions|services|"
    "world|space|lab|home"
)
# Those that are endings of files on every machine: only behind a word that names a host, or under another
# one's domain (ac.rs).
FILE_TLDS = "am|cc|cu|hm|la|md|ml|mm|pm|ps|py|rs|sh|sm|so"

ORDINARY, PARAMETERS, PUBLIC, STANDARD, AUTHORITIES, ENGINE, KERNEL = (
    frozenset(words.split())
    for words in (_ORDINARY, _PARAMETERS, _PUBLIC, _STANDARD, _AUTHORITIES, _ENGINE, _KERNEL)
)
