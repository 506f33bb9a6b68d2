"""Patterns of what tells whose machine it is: phrases that name a user or a host,
and the forms of addresses, identifiers and places."""

from __future__ import annotations

import re

from healthcheck.scrub.words import FILE_TLDS, TLDS, WORDY_TLDS

LONGEST = 32_768           # characters of a line that are worked on together
PLACE = 0xF0000            # a piece that is done is one character of plane 15 while the others are worked on
PLACES = 0xFFF0
BEGIN = re.compile(r"(?<![a-z])[a-z]|(?<=\\x[0-9a-f]{2})[a-z]|(?<![0-9a-z])[^a-z]")
UNIT = re.compile(r"\.(?:service|socket|timer|mount|automount|slice|scope|target|device|path|swap)\b")
NAMES = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
PARTS = re.compile(rf"([\s_.,:@=+~%#{chr(PLACE)}-{chr(PLACE + PLACES)}-]+|\\x[0-9a-f]{{2}}|\\[0-7]{{3}})")

# ---- what is learned from phrases: (kind, pattern whose groups hold names)

# Behind '@' a pointer (req@ffff9a3c5e7f0123) and the other end of a veth (veth1a2b3c4@if12).
NO_HOST = r"(?!(?:0x[0-9a-f]+|ffff[0-9a-f]{0,12}|[0-9a-f]{8}(?:[0-9a-f]{8})?|if\d{1,6})(?![\w.-]))"
NO_NAME = re.compile(f"(?i){NO_HOST.replace('(?!', '(?:', 1)}")
SLURM_NAME = (
    r"(?!(?:is|was|are|not|in|on|of|to|at|has|had|with|and|for|the|a|an|no|all|connect\w*|communicat\w*|config\w*|regist\w*|respond\w*|"
    r"state|count|list|slurm\w*|failed|failure|error|returned|reboot\w*|down|drain\w*|idle|unable|invalid|zero|job|step|launch\w*|"
    r"sched\w*|backfill|reconfig\w*|info|warning|fatal|verbose|debug\w*|low|name|names|unexpected\w*|now|cannot|can|gres|memory|cpus?|"
    r"switch\w*|port|socket|received|time\w*|killed|terminat\w*)\b)"
    r"([a-z][\w.-]{0,252})")

# A user is named.
USERS: tuple[re.Pattern[str], ...] = (
    re.compile(r"(?i)(?:\b(?:(?:for|of|by) (?:invalid )?user:?|invalid user)|\(user:?) "
               r"'?([a-z_][\w.-]{0,63})"),
    re.compile(r"\bsu(?:\[\d{1,9}\])?: (?:FAILED SU )?\(to ([A-Za-z_][\w.-]{0,63})\) "
               r"([A-Za-z_][\w.-]{0,63})"),
    re.compile(r"(?i)\buser(?:name)?:? (?:\\?[\"'`])([a-z_][\w.-]{0,63})(?:\\?[\"'`])"),
    re.compile(r"(?i)\buser(?:name)?:? (?!action\b)([a-z_][\w.-]{0,63}) "
               r"(?:is|was|may|does|has|cannot|not|denied)\b"),
    # Of the BMC's log and of services; what the kernel itself says of the user's side of a machine has none
    # of these names.
    re.compile(
        r"(?i)\buser(?:name)?:? "
        r"(?!(?:access|input|output|copy|copied|fault|faults|return|returns|returned|update|updates|message|"
        r"messages|defined|supplied|space|mode|has|had|was|is|not|it|that|who|which)\b)"
        r"([a-z_][\w.-]{0,63}) (?:from|logged (?:in|out|on|off)|via)\b"),
    re.compile(r"(?i)\buserid=([a-z_][\w.-]{0,63})"),
    re.compile(r"\bby ([a-z_][\w.-]{0,63})\(uid="),
    re.compile(r"\bsudo:\s{1,8}([a-z_][\w.-]{0,63}) : "),
    re.compile(r"\bCRON\[\d{1,9}\]: \(([a-z_][\w.-]{0,63})\)"),
    re.compile(r"(?:Accepted|Failed) [\w/-]+ for (?:invalid user )?([A-Za-z_][\w.-]{0,63}) from"),
    re.compile(
        r"(?i)(?<![\w.])(?:a?uid|acct|user(?:name)?|login|logname|sudo_user|ruser|owner)=[\"']?([a-z_][\w.-]{0,63})"),
)
# Too short to be a name, and often none.
BRIEF = frozenset(("a", "an", "as", "at", "by", "do", "id", "if", "in", "is", "it", "no", "of", "on", "or",
                   "so", "to", "up"))
LEARN: tuple[tuple[str, re.Pattern[str]], ...] = (
    *(("user name", pattern) for pattern in USERS),
    ("user name", re.compile(r"(?:/home|/Users|/export/home|/home/users|/mnt/home)/([A-Za-z_][\w.-]{0,63})")),
    ("host name", re.compile(r"(?i)hostname(?: set)? to <?([a-z0-9][\w.-]{0,252})>?")),
    ("host name", re.compile(r"(?<![\w.])ip=(?:[^: ]*:){4}([A-Za-z][\w.-]{0,252}):")),
    ("host name", re.compile(r"(?i)\b(?:hostname|nodename|fqdn)[=:] *\"?([a-z0-9][\w.-]{0,252})")),
    ("host name", re.compile(
        r"(?i)\b(?:nfs\w{0,20}|cifs|ceph|lustre|rpc\.\w{1,20})\b[^\n]{0,80}\b(?:server|host) "
        r"(?!(?:returned|reported|wrote|sent|cheating|does|did|rejected|while|side|rebooted|lost|went|handle)\b)([a-z][\w.-]{0,252})")),
    ("host name", re.compile(r"(?i)\b(?:nfs|mount)\b[^\n]{0,80}[ '\"]([a-z][\w.-]{0,252}):/[\w.-]")),
    ("host name", re.compile(r"(?i)\bcifs\b[^\n]{0,80}?(?://|\\\\|\\x5c\\x5c)([a-z][\w.-]{0,252})")),
    ("host name",
     re.compile(r"(?i)\b(?:https?|tcp|ssh|s?ftp|tftp|ldaps?|nfs|iscsi)://(?:[^\s/@]{1,200}@)?([a-z][\w.-]{0,252})")),
    ("host name", re.compile(r"cert '([A-Za-z][\w.-]{0,252}) Secure Boot Module Signature key")),
    ("host name", re.compile(rf"(?i)\b(?:JOB \d{{1,12}}|STEP [\w.]{{1,24}}) ON {SLURM_NAME}")),
    ("host name", re.compile(r"(?i)\bslurm\w{0,8}\[([a-z][\w.-]{0,252})\]")),
    ("host name", re.compile(
        r"(?i)\b(?:node(?:host)?name|nodeaddr|nodelist|slurmctld(?:host|addr)|control(?:machine|addr)|backupcontroller|batchhost|dbdhost|"
        r"(?:accounting)?storagehost|slurmdhost)=\"?([a-z][\w.-]{0,252})")),
    ("site name",
     re.compile(r"(?i)\b(?:clustername|partition(?:name)?|account|jobname|wckey|qos)=\"?([a-z][\w.-]{0,63})")),
    ("host name",
     re.compile(r"(?i)\bnode[ "
                r"_-]?desc(?:ription)?\W{1,4}(?!mt\d|connectx|mellanox|nvidia|mlx\d)([a-z0-9][\w.-]{0,252})")),
    ("plug-in name", re.compile(
        r"(?i)\b(?:unknown (?:or invalid )?runtime|(?:authorization |volume |network |log |logging "
        r")plug-?in|denied by plugin)(?: name)?:? "
        r"\\?[\"']?(?!(?:is|was|not|failed|error|with|for|and|has|does)\b)([a-z][\w./-]{2,63})")),
    ("path name", re.compile(r"\brd\.lvm\.[lv][vg]=([\w.+-]{1,63})(?:/([\w.+-]{1,63}))?")),
    ("path name", re.compile(r"(?i)\bvolume group \"?([\w.+-]{1,63})")),
    ("site name", re.compile(r"\b([A-Za-z]\w{3,15})-(?:OST|MDT)[0-9a-f]{4}\b")),
    ("host name",
     re.compile(rf"(?<![\w./-])(?:[A-Za-z_][\w.+-]{{0,63}}@){NO_HOST}([A-Za-z][\w.-]{{0,252}})")),
    ("user name", re.compile(rf"(?<![\w./-])([A-Za-z_][\w.+-]{{0,63}})@{NO_HOST}[A-Za-z][\w.-]{{0,252}}")),
)
# In lines that speak of Slurm.
SLURM = re.compile(
    r"(?i)\b(?:(?<=[a-z] )(?:slurmctld|slurmdbd|slurmd|controller)(?: host| daemon)?(?::| at| on| "
    r"host)|nodes?|host|backup|primary) \"?"
    rf"{SLURM_NAME}|\[([a-z][\w.-]{{1,252}})\]:\d{{2,5}}\b")
COMMAND_LINE = re.compile(r"((?:[Cc]ommand line|command line parameters): ?\"?)([^\n]*)")
SECRET = re.compile(
    r"(?i)((?:password|passwd|passphrase|pwd|secret|token|api_?key|credential|auth_?key|private_?key|access_?key|"
    r"psk|(?<![a-z])[a-z]{0,8}pw(?![a-z])|cookie|account_?key|signing_?key|enc\w{0,8}_?key|ssh_?key|licen[cs]e_?key|webhook(?:_?url)?|"
    r"[A-Z0-9]_(?:pw|key|pass|auth))"
    r"[\w.]{0,12}[\"']?\s{0,2}[=:]\s{0,2}|(?<![\w-])pass=)(\"[^\"]{1,400}\"|'[^']{1,400}'|[^\s,;\"']{1,400})")
# What a password's name has in it: no value behind it is too common to be one.
PASSWORD_NAME = re.compile(r"(?i)pass(?!iv|ed|es|ing)|pwd|pw\b|psk")
# Where a secret or a name stands, whatever it is made of: behind an option, in a login of a command, a
# domain's user, a distinguished name, a bucket, an object of Kubernetes.
OPTION = re.compile(
    r"(?i)((?<![\w-])--?[\w-]{0,20}(?:token|passw(?:or)?d|passphrase|pass|pwd|secret|api-?key|access-?key|auth|"
    r"credentials?|psk|user(?:name)?|login)[\"']?(?:=|,?\s{1,2})[\"']?)(?!-)([^\s,;\"']{1,400})")
LOGS_IN = re.compile(
    r"(?i)\b(?:sshpass|mysql\w*|mariadb\w*|mongo\w*|psql|ipmitool|ipmi\w*|racadm|smbclient|snmp\w*|ldap\w*|kinit|curl|wget|"
    r"rsync|redis-cli|docker login|podman login|crictl|kubectl|useradd|usermod)\b")
LOGIN = re.compile(r"(?i)((?<![\w-])[\"']?-[puwaxykc][\"']?,?\s{0,2}[\"']?)(?![-:])([^\s,;\"']{1,400})")
LOGIN_REACH = 240           # characters between a command that logs in and its option
PASSWORD_OPTION = re.compile(r"((?<!\S)-p)(?=[^\s]{0,60}[A-Z!@#$%^&*])([^\s,;\"']{4,400})")
PAIR = re.compile(
    r"((?<!\S)-u\s?[\"']?|(?<![\w-])(?i:login|creds?|credentials?|auth)[=: ]{1,2})"
    r"([^\s:,;\"'@/]{1,64}:[^\s,;\"']{2,200})")
DOMAIN_USER = re.compile(
    r"(?<![\w\\])([A-Z][A-Z0-9.-]{1,30})(\\{1,2})(?!x[0-9a-f]{2})([A-Za-z_][\w.-]{1,63})")
DISTINGUISHED = re.compile(
    r"(?i)((?<![\w-])(?:uid|cn|ou|dc|samaccountname|userprincipalname)=)(?!\d+\b)"
    r"([^,;=\n\"']{1,80})(?=,|$|[\"')]|\s)")
BUCKET = re.compile(r"(?i)(\b(?:s3[an]?|gs|gcs|az|abfss?|wasbs?|hdfs|swift|oss|cos|r2|b2)://)([^\s\"']{1,400})")
OBJECT = re.compile(
    r"(?i)((?<![\w/-])(?:name_?spaces?|pods?|pod_?name|service_?account|bucket|realm|tenant|project|deployment|"
    r"statefulset|daemonset|node_?name|node_?selector|container_?name|image)[\"']?(?:\s{0,2}[=:]\s{0,2}|/)[\"']?)"
    r"(?!\d+\b)([a-z0-9][\w.:/@-]{0,252})")
KUBE = re.compile(r"(?i)kube|\bpod\b|namespace|\bk[38]s\b|\bcri\b")
KUBE_NAMES = re.compile(
    r"(?i)((?<![\w-])(?:pod|node|namespace|container)s?[=:/ ]{1,2}[\"']?)(?!\d+\b)"
    r"([a-z0-9]+(?:[-./][a-z0-9]+)+)")
SETENV = re.compile(
    r"(?i)((?<![\w-])(?:systemd\.set_?env|setenv|environment|env|export)[=: ]\s{0,2}[\"']?[A-Za-z_]\w{0,80}=)"
    r"([^\s\"']{1,400})")
GUID = re.compile(r"(?i)(guid\w{0,12}[\"']?\s{0,3}[=:]?\s{0,8}[\"']?)(0x)?([0-9a-f]{16})(?![0-9a-z])")

UUID = re.compile(
    r"(?i)((?:GPU-|MIG-)?)(?<![0-9a-z])([0-9a-f]{8})(-|_|\\x2d)([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{12})(?![0-9a-z])")
GROUPS = re.compile(r"(?i)(?<![0-9a-z:])[0-9a-f]{4}(?::[0-9a-f]{4}){3}(?![0-9a-z]|:[0-9a-f])")
PAIRS = re.compile(
    r"(?i)(?<![0-9a-z:.-])[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4,31}(?![0-9a-z]|[:.-][0-9a-z])")
CISCO = re.compile(r"(?i)(?<![0-9a-z.:])(?=[0-9.]*[a-f])[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}(?![0-9a-z.])")
IPV6 = re.compile(
    r"(?i)(?<![0-9a-z:.])(?=[0-9a-f]*:)[0-9a-f:]{2,39}(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3})?(?![0-9a-z:])")
IPV4 = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,3}){3})(?!\d|\.\d)")
DASHED = re.compile(r"(?<![0-9A-Za-z])((?:ip|host|node)-)(\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3})(?![\d-])")
VERSION = re.compile(
    r"(?i)(?:version|(?<![a-z])ver|firmware|(?<![a-z])fw|bios)[\s:=#\"'({]{0,4}v?$|(?<![a-z])v$")
# What tells of a version as well, but where an address can stand too: 'kernel:
# 192.168.0.7 sent', '10.0.0.1-manager'.
MAYBE_VERSION = re.compile(
    r"(?i)(?<![a-z])(?:driver|release|rev|revision|kernel|nvml|cuda|module|nvrm|build|microcode|abi|api)[\s=#\"'({]{0,4}v?$"
    r"|(?<!\.\d)(?<!\.\d\d)(?<!\.\d\d\d)[-+~]$(?<=\d.)|vmlinuz-$|linux-$")
MAYBE_RELEASE = re.compile(
    r"[-+~_](?!m(?:a|an|ana|anag|anage|anager)?\b)(?!\d{1,3}(?:\.\d{1,3}){3})[A-Za-z0-9]")
# What follows an address, even behind 'version', and what follows a version, even one that could be an
# address of a private network.
REACHED = re.compile(
    r"(?i):\d{2,5}(?!\d)|/\d{1,2}(?!\d)|[\])>]?:?\s{1,3}(?:port\b|sent|sends|refused|rejected|reset "
    r"by|closed|unreachable|"
    r"unknown host|timed out|"
    r"responded|responding|replied|does|did|is (?:un|not |down|dead|alive|up\b|at\b)|"
    r"not (?:respond|reach)|has not|->|dev\b|via\b|on eth)")
SPEAKS_OF_CODE = re.compile(
    r"(?i)[\w.+~-]{0,40}[)\"']?,?\s{1,3}(?:loaded|loading|initiali[sz]|registered|started|starting|installed|built|build|compiled|released?\b|"
    r"for (?:kernel|linux)|kernel\b|\(|vmlinuz)|[-+~](?:generic|rc\d|smp|el\d|lts|server|amd64|x86_64)")
TOWARDS = re.compile(r"(?i)\b(?:to|from|by|at|with|via) (?:the )?[a-z]{2,12}[\s=:]{0,3}$")
BARE = re.compile(r"(?i)(?<![0-9a-z])(0x)?([0-9a-f]{12,})(?![0-9a-z])")
ENX = re.compile(r"(?i)(?<![0-9a-z])(enx|wlx|veth-?mac)([0-9a-f]{12})(?![0-9a-z])")
ADDRESSED = re.compile(
    r"(?i)(?:status|addr\w*|misc\w*|synd\w*|ipid\w*|mem\w*|regs?|bar|page|pfn|offset|bank|cap\w*|ctl|base|size|start|end|range|mask|rip|"
    r"rsp|cr\d|error|code|e820|feature\w*|flags?|table|state|value|val|event|tsc|at|to|from|io)\b[^0-9a-z\n]{0,12}$|[-+]$")
WORLDWIDE = re.compile(r"(?i)(?:naa|eui|wwn|nguid|wwid|wwpn|wwnn|ppin|san|serial)\W{0,4}$")
OUI_VENDOR = ("10de", "15b3", "8086", "1002", "1022", "14e4", "144d", "1a03", "1d0f", "1000", "19e5", "1b4b",
              "1c5c", "1344", "1e0f")

KEEP = re.compile(
    r"MODALIAS=\S+|(?<![\w-])(?:pci|usb|acpi|of|dmi|hid|cpu|platform|virtio|pnp):[A-Za-z]?\S*\d\S*")
FINGERPRINT = re.compile(
    r"(SHA256:)([A-Za-z0-9+/]{43})=?|((?:ssh-\w+|ecdsa-[\w-]+) )(AAAA[A-Za-z0-9+/]{16,}=*)")
DOCKER_ID = re.compile(r"(?<![A-Z0-9:])(?:[A-Z2-7]{4}:){11}[A-Z2-7]{4}(?![A-Z0-9:])")
TOKEN = re.compile(
    r"(?<![A-Za-z0-9+/_=-])(?!_Z)(?:(?:gh[opsu]|glpat|hf|sk|xox[abp]|dop|npm)[-_][A-Za-z0-9_-]{10,}|A[KS]IA[0-9A-Z]{12,}|eyJ[A-Za-z0-9_.-]{20,}"
    r"|(?=[^\s]{0,200}[0-9])(?=[^\s]{0,200}[A-Z])(?=[^\s]{0,200}[a-z])[A-Za-z0-9+_]{40,}={0,2})(?![A-Za-z0-9+=])")
SERIAL = re.compile(
    r"(?i)(\b(?:serial(?:[ _-]?(?:number|num|no))?|s/n|sn|(?:asset|service)[ _-]?tag|board[ _]id|part[ "
    r"_]number)"
    r"\.?[\"']?\s{0,2}[:=#]?\s{0,4}\"?)"
    r"((?=[A-Z-]{0,40}[0-9])[A-Z0-9][A-Z0-9-]{4,63})(?![\w:/.])")
# Of smartctl's JSON (wwn, eui64): a number, whose first digit stays lest it become one that JSON has not.
DISK_ID = re.compile(r"(\"(?:ext_)?id\"\s{0,2}:\s{0,2}[1-9])(\d{7,19})(?![\d.])")
# One without a digit is distinguished from a word by its capitals, or by the colon before it.
SERIAL_CAPITALS = re.compile(
    r"(\b(?i:serial(?:[ _-]?(?:number|num|no))?|s/n|sn)\.?[\"']?\s{0,2}[:=#]?\s{0,4}\"?)"
    r"(?!ATAPI?\b|ATTACHED\b|OVER\b)([A-Z][A-Z-]{3,63})(?![\w:/.])")
SERIAL_LETTERS = re.compile(r"(\b(?i:serial[ "
                            r"_-]?(?:number|num|no)|s/n)\.?[\"']?\s{0,2}[:=#]\s{0,4}\"?)([A-Za-z][A-Za-z-]{3,63})(?![\w:/.])")
CERTIFICATE = re.compile(r"(?i)(\bcert(?:ificate)? ['\"])([^'\"\n]{1,300})(?=['\"])")
TERM = re.compile(r"[^\W_][\w.-]*")
KEY_ID = re.compile(r"(?i)[0-9a-f]{8,128}")
NODE_DESC = re.compile(r"(?i)(\bnode[ "
                       r"_-]?desc(?:ription)?[\"']?\s{0,2}[:=]?\s{0,4})(\"[^\"\n]{1,64}\"|'[^'\n]{1,64}'|[^\s,;\"']{1,64})")
DESCRIBED = re.compile(
    r"(?i)(?:mlx\d\w*|mt\d+|connectx\S*|mellanox|technologies|nvidia|hca-?\d*|hfi\w*|bluefield\S*|quantum\S*|\d+)")
CLOUD = re.compile(
    r"(?<![A-Za-z0-9-])((?:i|ami|aki|vol|snap|eni|vpc|subnet|sg|igw|rtb|acl|eipalloc|eipassoc|fs|fsap|lt|tgw|nat|pg|cr|r)-)"
    r"((?=[a-f]*[0-9])[0-9a-f]{17}|(?=[a-f]*[0-9])[0-9a-f]{8})(?![0-9A-Za-z])")
VOLUME = re.compile(r"(?<![A-Za-z0-9])(vol)([0-9a-f]{17})(?![0-9A-Za-z])")
OCID = re.compile(r"\bocid1\.[a-z]{2,30}\.[a-z0-9.-]{2,80}")
INTERFACE = re.compile(
    r"(?<![A-Za-z0-9-])(br-|veth|cali|azv|lxc|tap|qvo|qvb|qbr)((?=[a-f]*[0-9])[0-9a-f]{6,15}|[a-f]{7})(?![0-9A-Za-z])")
ARRAY = re.compile(r"(?i)(?<![0-9a-z:])([0-9a-f]{8}(?::[0-9a-f]{8}){3})(?![0-9a-z:])")
AUDIT_HEX = re.compile(
    r"(?<![\w.])((?:proctitle|name|exe|cwd|comm|path|acct|cmd|data)=)((?:[0-9A-F]{2}){3,4000})(?![\w.:-])")
MOUNT_UNIT = re.compile(
    r"(?<![\w./\\-])((?!sys-|proc-|dev-|run-)[A-Za-z][\w\\:-]{0,200})(\.(?:mount|automount|swap))(?![\w-])")
FILE_PATH = re.compile(
    rf"(?:(?<=[a-z]://)|(?<![\w./~%+{chr(PLACE)}-{chr(PLACE + PLACES)}-]))"
    rf"/(?!,)(?:[\w.+@~%=,\\#{chr(PLACE)}-{chr(PLACE + PLACES)}-]{{1,255}}/?){{1,40}}")
SYSTEM_TREES = re.compile(
    r"/(?:sys|proc|usr(?!/local/)|lib|lib32|lib64|bin|sbin|boot)(?:/|$)|/dev/(?!mapper/|md/|disk/|zvol/)")
# How storcli names a drive: controller, enclosure and slot.
DRIVE_PLACE = re.compile(r"/c\d{1,3}(?:/e\d{1,5})?/s\d{1,3}")
# What /dev holds in folders of its own; any other folder there is a volume group.
DEV_FOLDERS = re.compile(
    r"/dev/(?:disk|mapper|md|zvol|pts|shm|input|dri|infiniband|cpu|net|bus|snd|vfio|hugepages|mqueue|block|char|nvidia[\w-]*|fd|dma_heap|"
    r"fuse|kvm|log|ipmi\w*|vhost[\w-]*|tpm\w*)(?:/|$)")
# Names a file system by what is written on it, and no path.
BY_MARK = re.compile(r"(?:PART)?(?:UUID|LABEL)=|ID=")
# Options of a mount whose value is a host.
HOST_OPTIONS = ("addr", "mountaddr", "mounthost", "clientaddr", "ip", "srcaddr", "backupvolfile-server",
                "servern", "netbiosname")
VOLUMES = re.compile(r"rd\.lvm\.(?:lv|vg)|rd\.luks\.name|rd\.md\.name|root|resume")
PPIN = re.compile(r"(?i)(\bppin:? (?:0x)?)([0-9a-f]{8,16})(?![0-9a-z])")
SSID = re.compile(
    r"(?i)(\be?ssid\b\s{0,2}[:=]?\s{0,2})(\"[^\"\n]{1,64}\"|'[^'\n]{1,64}'|[^\s\"',;()]{1,32}"
    r"(?: "
    r"(?!(?:joined|freq\w*|bssid|chan\w*|signal|rssi|key|secur\w*|auth\w*|assoc\w*|connect\w*|disconnect\w*|on|at|with|via|using|"
    r"from|for|is|was|not|failed|found|lost|has|in|and|to|by)\b|[\w.-]+=)[^\s\"',;()]{1,32}){0,5})")
USERINFO = re.compile(r"(?i)(//|\biscsi:)([^\s/:@\"']{1,64})(:[^\s/\"']{1,200})?@(?=[^\s@])")
AUTHORIZATION = re.compile(r"(?i)(\bauthorization[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?:[a-z]{4,10} )?|\bbearer "
                           r")([A-Za-z0-9._~+/=-]{8,4000})")
LINK_HEADER = re.compile(r"(\bll header: [0-9a-f]{8}: )((?:[0-9a-f]{2} ){12,16})([^\n]*)")
LABEL = re.compile(
    r"(BTRFS: device label "
    r"|(?:PART)?LABEL=|by-label/|by-partlabel/|by-id/|nqn\.|iqn\.|(?:PART)?UUID=|by-uuid/)"
    r"(\"[^\"\n]{1,200}\"|[^\s,;\"']{1,200})")
MAIL = re.compile(r"(?<![\w./+-])([A-Za-z_][A-Za-z0-9._%+-]{0,63})@([A-Za-z0-9][A-Za-z0-9.-]{0,252})")
FQDN = re.compile(
    rf"(?i)(?<![\w@.-])((?:[a-z0-9_](?:[a-z0-9_-]{{0,61}}[a-z0-9])?\.){{1,8}}(?:{TLDS}))(?![\w-]|\.\w)")
# The label before the last: no file's ending before another (config.h.in), no number (5.15.0.ga), no
# parameter of LVM (rd.lvm.lv).
_NAMED = (
    r"(?<![\w@.-])(?!_)((?:[a-z0-9_](?:[a-z0-9_-]{{0,61}}[a-z0-9])?\.){labels}"
    r"(?!(?:am|h|c|ac|py|sh|pc|mk|cfg|conf|txt|json|yaml|xml|spec|service|socket|timer|lvm|\d+)\.(?:{tlds})(?![\w-]))"
    r"[a-z0-9](?:[a-z0-9_-]{{0,61}}[a-z0-9])?\.(?:{tlds}))(?![\w(\[=-]|\.\w)")
_OF_A_HOST = (
    r"(?:(?<=host )|(?<=host=)|(?<=hostname )|(?<=backend )|(?<=peer )|(?<=ssh )|(?<=upstream )|(?<=host: ))")
_OF_AN_END = (r"(?:(?<=to )|(?<=from )|(?<=server )|(?<=server: )|(?<=server=)|(?<=source )|(?<=via "
              r")|(?<=gateway )|(?<=proxy )|(?<=relay ))")
_SECOND = (r"(?<![\w@.-])((?:[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?\.){1,8}"
           r"(?:ac|co|com|edu|gov|org|net|res|nic|or|go|gob|ne)")
# Names of hosts by their top-level domain, the surest first.
FQDNS = (
    FQDN,
    re.compile("(?i)" + _NAMED.format(labels="{1,8}", tlds=WORDY_TLDS)),
    re.compile("(?i)" + _OF_A_HOST + _NAMED.format(labels="{0,8}", tlds=f"{WORDY_TLDS}|{FILE_TLDS}")),
    re.compile("(?i)" + _OF_AN_END + _NAMED.format(labels="{0,8}", tlds=WORDY_TLDS)),
    re.compile(rf"(?i){_SECOND}\.(?:{WORDY_TLDS}|{FILE_TLDS}))(?![\w(\[=-]|\.\w)"),
)
# The instance of a templated unit (openvpn@zqlink.service),
# and the templates whose instances are parts of the machine.
INSTANCE = re.compile(rf"(?<![\w./+-])([A-Za-z][\w.:\\-]{{0,100}}@)([^\s@/\"'()]{{1,200}}?)({UNIT.pattern})")
DEVICE_TEMPLATES = (
    "modprobe@", "getty@", "serial-getty@", "autovt@", "user@", "user-runtime-dir@", "lvm2-pvscan@",
    "systemd-backlight@", "console-getty@",
)
DEVICES = re.compile(
    r"(?i)(?:tty\w*|hvc\d+|pts|(?:en|eth|ib|wl|bond|br|veth|sd|vd|xvd|nvme|mlx|md|dm|loop)[a-z]{0,2}\d+\w*|\d+\w?)")
CONTAINER = re.compile(
    r"(?i)((?:docker|containerd?|crio|podman|shm|sandbox|overlay2)[-/ :]{1,2})([0-9a-f]{12})(?![0-9a-z])")
RECORD = re.compile(r"(\d{1,6},\d{1,20},\d{1,20},[^;\n]{0,60};)")
HOMES = re.compile(r"((?:/home|/Users)/)([A-Za-z_][\w.-]{0,63})((?:/[\w.+@~%=,-]{1,255}){0,40})")

HOME = ("home", "users", "Users")
KERNEL_TREES = ("/sys", "/proc", "/dev")
NAMED_VOLUMES = ("/dev/mapper", "/dev/md", "/dev/disk", "/dev/zvol")
# Files that hold one identity and nothing else, by the end of their path.
IDENTITY = re.compile(
    r"/(?:[\w-]*serial(?:_number)?|[\w-]*uuid|machine-id|boot_id|[\w-]*guid|nguid|eui|wwid|[\w-]*asset_tag|subsysnqn|hostnqn|hostid)$")
HOST_FILE = re.compile(r"/(?:hostname|domainname|nodename)$")
# The lines of resolv.conf(5) that name domains, and nothing else.
RESOLVED = re.compile(r"([ \t]*(?:search|domain)[ \t]+)([^\n]*)")
VERSION_FILE = re.compile(r"/(?:osrelease|version|ostype|fw_ver|hca_type|rate|state|phys_state|link_layer)$")
# Keys of JSON that hold one identity.
ID_KEYS = frozenset((
    "uuid", "serial", "id", "serial_number", "part_number", "board_part_number", "board_serial", "guid",
    "nodeid", "board_id", "chassis_serial",
))
