"""Makes a recording fit to be shown to anybody: what tells whose machine it is gives way to stand-ins, and facts stay as they are.

Two passes. The first learns the names in use (hosts, users, domains, secrets of the kernel's command line, parts of paths) from
places whose form is known and from phrases that name one; the second replaces those words wherever they occur, and besides
them all that looks like an address, an identifier, a key or a secret. PCI addresses, versions, models, numbers and times stay.
When in doubt an identifier is replaced; a word that kernels, drivers and standard paths use is no name, whoever is called so.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from healthcheck import scrubpatterns as forms
from healthcheck.facts.filesystem import PSEUDO
from healthcheck.recording import Capture, FileCapture, Host, Outcome, Recording
from healthcheck.scrubwords import AUTHORITIES, ENGINE, ORDINARY, PARAMETERS, PUBLIC, STANDARD, TLDS
from healthcheck.standins import StandIns
from inventory.model import Node, PortPlan
from inventory.transport.base import Failure

NODE = "node1"
_LONGEST = 32_768           # characters of a line that are worked on together

_SIBLINGS = 100


@dataclass(frozen=True)
class Scrubbed:
    """A recording, its earlier look and its node's place in the inventory, scrubbed together, and how many of each kind were replaced."""

    recording: Recording
    previous: Recording | None
    node: Node
    counts: Mapping[str, int]


def scrub(
    recording: Recording, node: Node, *, previous: Recording | None = None, key: bytes,
    hosts: Iterable[str] = (), users: Iterable[str] = (),
) -> Scrubbed:
    """The same thing has the same stand-in throughout. `hosts` and `users` are names known beforehand; `key` is random, and not kept."""
    looks = [recording, *([previous] if previous is not None else [])]
    scrubber = _Scrubber(key, looks, node, hosts, users)
    return Scrubbed(
        scrubber.recording(recording), scrubber.recording(previous) if previous is not None else None, scrubber.node(node),
        dict(scrubber.standins.counts),
    )


def replaced(counts: Mapping[str, int]) -> str:
    """'3 host names, 8 GPU UUIDs', the most numerous first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{n} {kind if n == 1 else kind + ('es' if kind.endswith('s') else 's')}" for kind, n in ordered) or "nothing"



_ID_KEYS = frozenset((
    "uuid", "serial", "id", "serial_number", "part_number", "board_part_number", "board_serial", "guid", "nodeid", "board_id",
))

_FORM = {"site name": "site{}", "path name": "dir{}", "plug-in name": "plugin{}"}
_Handler = Callable[["_Scrubber", "re.Match[str]"], "str | None"]


class _Scrubber:
    """One recording's stand-ins and the words that it was found to name."""

    def __init__(self, key: bytes, looks: list[Recording], node: Node, hosts: Iterable[str], users: Iterable[str]) -> None:
        texts = [text for look in looks for text in _texts(look)]
        haystack = "\n".join(texts)
        self.standins = StandIns(key, haystack)
        self._kinds: dict[str, str] = {}
        self._known: set[str] = set()
        self._siblings: list[str] = []
        self._variants: dict[str, str] = {}
        self._cache: dict[str, str] = {}
        self._own = node.name.lower().partition(".")[0]
        self._learn_all(looks, node, hosts, users, haystack)
        self._index()

    # ---- learning

    def _learn_all(self, looks: list[Recording], node: Node, hosts: Iterable[str], users: Iterable[str], haystack: str) -> None:
        self.standins.preset("host name", self._own, NODE)
        self._learn_host(node.name)
        for look in looks:
            if look.host is not None:
                self._learn_host(look.host.hostname)
            for name, capture in look.captures.items():
                for document in _json_lines(capture.text):
                    self._learn_docker(document) if name == "docker.info" else self._learn_ids(document)
                for path, entry in capture.files.items():
                    if path.endswith("/mountinfo"):
                        self._learn_mounts(entry.text)
                    if forms.HOST_FILE.search(path):
                        self._learn_host(entry.text.strip())
        for host in (node.address, *(node.proxy_jump or "").split(","), node.bmc.address if node.bmc else None, *hosts):
            self._learn_host((host or "").rpartition("@")[2].partition(":")[0])
        for user in (node.user, node.bmc.user if node.bmc else None, *users):
            self._learn("user name", user or "")
        for place in (node.rack, *node.leaf, node.power, node.nvlink_domain, *node.labels.values()):
            self._learn("site name", place or "")
        for line in {whole[at: at + _LONGEST] for whole in haystack.splitlines() for at in range(0, len(whole), _LONGEST)}:
            for kind, pattern in forms.LEARN:
                for match in pattern.finditer(line):
                    if forms.UNIT.search(line[match.start(): match.end() + 10]):
                        continue
                    for name in filter(None, match.groups()):
                        self._learn_host(name) if kind == "host name" else self._learn(kind, name)
            for match in forms.SLURM.finditer(line) if "slurm" in line.lower() else ():
                self._learn_host(match[1] or match[2])
            for match in forms.CERTIFICATE.finditer(line):
                for name in forms.TERM.findall(match[2]):
                    if name.lower().strip(".-") not in AUTHORITIES and not forms.KEY_ID.fullmatch(name):
                        self._learn("site name", name)
            for pattern in (forms.SERIAL_CAPITALS, forms.SERIAL_LETTERS):
                for match in pattern.finditer(line):
                    self._learn("serial number", match[2])
            for match in forms.FQDN.finditer(line):
                self._learn_host(match[1])
            for match in forms.SECRET.finditer(line):
                if not match[1].lower().startswith("pwd"):
                    self._learn("secret", match[2].strip("\"'"))
            for match in forms.COMMAND_LINE.finditer(line):
                for key, value in _parameters(match[2]):
                    if _is_secret(key, value):
                        self._learn("secret", value.strip("\"'"))
            for match in forms.SERIAL.finditer(line):
                self._learn("serial number", match[2])
            self._learn_digits(line)

    def _learn_digits(self, line: str) -> None:
        for match in forms.GUID.finditer(line):
            self._known.add(match[3].lower())
        for match in forms.GROUPS.finditer(line):
            if not match[0].lower().startswith(forms.OUI_VENDOR):
                self._known.add(match[0].replace(":", "").lower())
        for match in forms.PAIRS.finditer(line):
            self._known.add(match[0].replace(match[1], "").lower())
        for match in forms.ENX.finditer(line):
            self._known.add(match[2].lower())
        for match in forms.CONTAINER.finditer(line):
            self._known.add(match[2].lower())

    def _learn(self, kind: str, word: str) -> None:
        """A word to replace wherever it stands alone, unless it is one that machines use themselves."""
        word = word.strip().strip(".,'\"")
        low = word.lower()
        least = 8 if word.isdigit() else 3 if kind in ("user name", "host name") else 4
        if len(word) < least or len(word) > 400 or low in ORDINARY or (kind == "plug-in name" and low in ENGINE) \
                or low in self._kinds or not any(c.isalnum() for c in word):
            return
        if _is_ip(word) or re.fullmatch(r"[0-9a-fA-F]{2,4}(?::[0-9a-fA-F]{2})*(?:\.\d)?|v?[\d.]+|/dev/[a-z]+\d*\w*", word):
            return
        self._kinds[low] = kind

    def _learn_host(self, name: str) -> None:
        name = name.strip().strip("[]<>.").lower()
        if not name or _is_ip(name) or name in ORDINARY or name in PUBLIC or any(name.endswith(f".{public}") for public in PUBLIC):
            return
        first, _, domain = name.partition(".")
        if forms.UNIT.search(name):
            return
        if domain and re.fullmatch(rf"(?i)[\w-]+(?:\.[\w-]+)*|{TLDS}", domain) and not domain.replace(".", "").isdigit():
            if "." in domain:
                self._learn("domain name", domain)
            else:
                self._learn("domain name", name)
            for label in name.split(".")[1 if "." in domain else 0:-1]:
                self._learn_site(label)
        if not domain or "." in domain:
            self._learn("host name", first)
            stem = first.rstrip("0123456789")
            digits = len(first) - len(stem)
            if digits >= (3 if stem.strip("-_") in ORDINARY else 2) and len(stem) >= 2:
                self._siblings.append(rf"{re.escape(stem)}\d{{{digits}}}")
            if "-" in stem or "_" in stem:
                for part in re.split(r"[-_]", stem):
                    self._learn_site(part)

    def _learn_site(self, label: str) -> None:
        label = label.strip("0123456789")
        if len(label) >= 4 and label.isalpha():
            self._learn("site name", label)

    def _learn_docker(self, info: Any) -> None:
        if isinstance(info, dict):
            self._learn_host(str(info.get("Name") or ""))
            for plugin in (*_plugins(info.get("Plugins")), *_plugins(info.get("Runtimes")), str(info.get("DefaultRuntime") or "")):
                self._learn("plug-in name", plugin.partition(":")[0])
            config = info.get("RegistryConfig")
            for registry in (config or {}).get("IndexConfigs") or () if isinstance(config, dict) else ():
                self._learn_host(str(registry).partition(":")[0])
            for host in re.split(r"[,\s]+", str(info.get("NoProxy") or "")):
                self._learn_host(host.lstrip("*.").partition(":")[0].partition("/")[0])

    def _learn_ids(self, document: Any) -> None:
        for key, value in document.items() if isinstance(document, dict) else ():
            found = value.get("ok") if isinstance(value, dict) else value
            if key in _ID_KEYS and isinstance(found, str):
                self._learn("serial number", found)

    def _learn_mounts(self, text: str) -> None:
        for line in text.split("\n"):
            before, dash, after = line.partition(" - ")
            left, right = before.split(" "), after.split(" ")
            if not dash or len(left) < 6 or len(right) < 3:
                continue
            server, colon, _ = _unescape(right[1]).partition(":/")
            if colon:
                self._learn_host(server.rpartition("@")[2].strip("[]"))
            for path in (left[3], left[4], *([right[1].partition(":")[2] or right[1]] if right[0] not in PSEUDO else [])):
                self._path(_unescape(path), learn=True)

    def _index(self) -> None:
        """Words by how they begin, so that a long log costs as much with ten thousand of them as with ten."""
        self._variants = {variant: word for word in self._kinds for variant in _variants(word)}
        lengths: dict[str, set[int]] = {}
        for variant in self._variants:
            lengths.setdefault(variant[:2], set()).add(len(variant))
        self._lengths = {begin: sorted(found, reverse=True) for begin, found in lengths.items()}
        siblings = "|".join(dict.fromkeys(self._siblings[:_SIBLINGS]))
        self._sibling = re.compile(rf"(?i)(?<![a-z0-9])(?:{siblings})(?![a-z0-9])") if siblings else None

    def _known_words(self, line: str) -> Iterable[tuple[int, int]]:
        """Where learned words stand, from left to right; a word of letters may touch digits, but no letters."""
        low = line.lower()
        low = low if len(low) == len(line) else line
        end = 0
        for match in forms.BEGIN.finditer(low):
            at = match.start()
            for length in self._lengths.get(low[at: at + 2], ()) if at >= end else ():
                word = low[at: at + length]
                if word in self._variants and not _touches(word[-1], low[at + length: at + length + 1]):
                    end = at + length
                    yield at, end
                    break

    # ---- words

    def word(self, word: str) -> str:
        """The stand-in of a learned word, or of one that stands where a name of a host stands."""
        low = word.lower()
        low = self._variants.get(low, low)
        kind = self._kinds.get(low, "host name")
        if kind == "host name":
            return self.standins.name(kind, low, "host{}")
        if kind == "user name":
            return self.standins.name(kind, low, "user{}")
        if kind == "domain name":
            return self.standins.name(kind, low, "domain{}.example")
        if kind in _FORM:
            return self.standins.name(kind, low, _FORM[kind])
        made = self.standins.like(kind, low)
        return made.upper() if word.isupper() else made

    def host(self, name: str) -> str:
        """A host's name in a place where nothing else stands; its first label and its domain have stand-ins of their own."""
        if not name or _is_ip(name):
            return self.text(name)
        first, dot, domain = name.strip().partition(".")
        if first.lower() in ("localhost", "localhost4", "localhost6"):
            return name
        label = NODE if first.lower() == self._own else self.word(first)
        if not dot:
            return label
        known = domain.lower() if domain.lower() in self._kinds else ""
        return f"{label}.{self.word(known) if known else self.standins.name('domain name', domain.lower(), 'domain{}.example')}"

    def user(self, name: str) -> str:
        """A user's name in a place where nothing else stands."""
        if name.lower() in ORDINARY:
            return name
        return self.word(name) if name.lower() in self._kinds else self.standins.name("user name", name.lower(), "user{}")

    def opaque(self, kind: str, value: str) -> str:
        """One identity, whatever its form; a known form keeps it."""
        done = self.text(value)
        # Of a secret not the part alone that has a form: in user:password@192.0.2.1 the rest is the secret.
        part = kind == "secret" and value.strip("\"'").lower() not in self._kinds and not any(form.fullmatch(value) for form in _FORMS)
        return done if len(value) < 2 or (done != value and not part) else self.standins.like(kind, value)

    # ---- text

    def text(self, text: str, patterns: bool = True) -> str:
        """Foreign text of any form, with all patterns and learned words replaced (without `patterns` only the words)."""
        return "\n".join(self._line(line, patterns) for line in text.split("\n"))

    def _line(self, line: str, patterns: bool) -> str:
        if not line:
            return line
        if len(line) > _LONGEST:
            cut = max(line.rfind(" ", 0, _LONGEST), line.rfind(",", 0, _LONGEST)) + 1 or _LONGEST
            return self._line(line[:cut], patterns) + self._line(line[cut:], patterns)
        prefix = ""
        if record := forms.RECORD.match(line):
            prefix, line = record[1], line[record.end():]
        key = line if patterns else ""
        if key in self._cache:
            return prefix + self._cache[key]
        done = self._work(line, patterns)
        if key and len(self._cache) < 10_000:
            self._cache[key] = done
        return prefix + done

    def _work(self, line: str, patterns: bool, words: bool = True) -> str:
        line = "".join("?" if ord(c) >= forms.PLACE else c for c in line) if any(ord(c) >= forms.PLACE for c in line) else line
        places: list[str] = []

        def put(text: str) -> str:
            if len(places) >= forms.PLACES:
                return "?"
            places.append(text)
            return chr(forms.PLACE + len(places) - 1)

        def apply(handler: _Handler) -> Callable[[re.Match[str]], str]:
            def replacement(match: re.Match[str]) -> str:
                new = handler(self, match)
                return match[0] if new is None else put(new)
            return replacement

        if patterns:
            for pattern, handler in _HANDLERS:
                line = pattern.sub(apply(handler), line)
        if words:
            for begin, end in reversed(list(self._known_words(line))):
                line = line[:begin] + put(self.word(line[begin:end])) + line[end:]
            if self._sibling is not None:
                line = self._sibling.sub(lambda match: put(self.word(match[0])), line)
        for pattern, handler in _PATHS if patterns and words else ():
            line = pattern.sub(apply(handler), line)
        # What is put may hold places itself: a group of a match that another pattern had worked on before.
        while places and any(ord(c) >= forms.PLACE for c in line):
            line = "".join(places[ord(c) - forms.PLACE] if ord(c) >= forms.PLACE else c for c in line)
        return line

    # ---- paths and mounts

    def _path(self, path: str, learn: bool = False) -> str:
        if path.startswith(forms.KERNEL_TREES) and not path.startswith(forms.NAMED_VOLUMES) and not _is_volume(path):
            return path if learn else self.text(path)
        parts = path.split("/")
        return "/".join(self._component(part, parts[at - 1] if at else "", learn) for at, part in enumerate(parts))

    def _component(self, part: str, parent: str, learn: bool) -> str:
        if not part or part.lower() in ORDINARY:
            return part
        if parent in forms.HOME:
            if learn:
                self._learn("user name", part)
                return part
            return self.user(part)
        if not learn and self._work(part, True, words=False) != part:
            return self.text(part)
        return self.pieces(part, learn)

    def pieces(self, part: str, learn: bool = False) -> str:
        """A component of a path whose words give way, unless they are what paths are made of everywhere."""
        if not learn and part.lower() in self._kinds:
            return self.word(part)
        return "".join(piece if at % 2 else self._piece(piece, learn) for at, piece in enumerate(forms.PARTS.split(part)))

    def _piece(self, piece: str, learn: bool) -> str:
        stem = piece.lower().rstrip("0123456789")
        if not stem or len(piece) < 2 or stem in ORDINARY or piece.lower() in ORDINARY:
            return piece
        if not learn and (stem in STANDARD or piece.lower() in STANDARD):
            return piece
        if not learn:
            return self.word(piece) if piece.lower() in self._kinds else self.standins.name("path name", piece, "dir{}")
        if len(piece) >= 4 and forms.NAMES.fullmatch(piece):
            self._learn("path name", piece)
        return piece

    def mountinfo(self, text: str) -> str:
        """The lines of mountinfo (proc(5)), whose mount points and sources stay one word each."""
        lines = []
        for line in text.split("\n"):
            before, dash, after = line.partition(" - ")
            left, right = before.split(" "), after.split(" ")
            if not dash or len(left) < 6 or len(right) < 3:
                lines.append(self.text(line))
                continue
            left[3], left[4] = (_escape(self._path(_unescape(path))) for path in (left[3], left[4]))
            if right[0] not in PSEUDO:
                right[1] = _escape(self.source(_unescape(right[1])))
            right[2] = ",".join(_escape(self._option(_unescape(option))) for option in " ".join(right[2:]).split(","))
            lines.append(" ".join(left) + dash + " ".join(right[:3]))
        return "\n".join(lines)

    def source(self, source: str) -> str:
        """What is mounted: a device, server:/export, //server/share, a data set, or a word of the file system's own."""
        if source.startswith("//"):
            server, slash, share = source[2:].partition("/")
            return f"//{self.host(server)}{slash}{self._path(share)}"
        server, colon, path = source.partition(":/")
        if colon and "/" not in server:
            user, at, name = server.rpartition("@")
            named = self.host(name) if forms.NAMES.fullmatch(name) and "," not in name else self.text(name)
            return f"{self.user(user) + at if at else ''}{named}:{self._path('/' + path)}"
        return self._path(source)

    def _option(self, option: str) -> str:
        key, equals, value = option.partition("=")
        if value.startswith("/") or "/" in value:
            return key + equals + ":".join(self._path(part) for part in value.split(":"))
        if key in ("user", "username", "domain", "fsname", "name", "mds_namespace", "clientname"):
            return key + equals + (self.user(value) if value.lower() not in ORDINARY else value)
        return self.text(option)

    # ---- the whole

    def recording(self, look: Recording) -> Recording:
        """The look with all text scrubbed; outcomes, exits, sizes and times stay."""
        failure = look.failure
        if failure is not None:
            failure = Failure(failure.stage, self.text(failure.reason))
        host = look.host
        if host is not None:
            host = Host(self.host(host.hostname), self.opaque("boot id", host.boot_id), host.time, host.uid, self.text(host.python),
                        host.machine, host.cpu_s)
        captures = {name: self._capture(name, capture) for name, capture in look.captures.items()}
        return Recording(NODE, look.received, host, failure, captures)

    def _capture(self, name: str, capture: Capture) -> Capture:
        cut = capture.outcome in (Outcome.TRUNCATED, Outcome.TIMEOUT)
        text = _whole(capture.text) if cut else capture.text
        files: dict[str, FileCapture] = {}
        mounts = any(path.endswith("/mountinfo") for path in capture.files)
        for path, entry in capture.files.items():
            held = _whole(entry.text) if entry.outcome in (Outcome.TRUNCATED, Outcome.TIMEOUT) else entry.text
            point = mounts and not path.endswith("/mountinfo")
            files[self._path(path) if point else self.text(path)] = FileCapture(entry.outcome, held if point else self._file(path, held))
        if name == "docker.info" or text.lstrip().startswith("{"):
            text = "\n".join(self._json_line(line) for line in text.split("\n"))
        else:
            text = self.text(text)
        return replace(capture, text=text, stderr=self.text(capture.stderr), files=files, note=self.text(capture.note))

    def _file(self, path: str, text: str) -> str:
        if path.endswith("/mountinfo"):
            return self.mountinfo(text)
        if forms.IDENTITY.search(path):
            return "\n".join(self.opaque("serial number", line) if line.strip() else line for line in text.split("\n"))
        if forms.HOST_FILE.search(path):
            return "\n".join(self.host(line) if line.strip("() \t") not in ("", "none") else line for line in text.split("\n"))
        if path == "/proc/cmdline":
            return self.command_line(text)
        if path == "/proc/swaps":
            return "\n".join(self._swap(line) for line in text.split("\n"))
        return self.text(text, patterns=forms.VERSION_FILE.search(path) is None)

    def _swap(self, line: str) -> str:
        path = line.split()[0] if line.startswith("/") else ""
        return _escape(self._path(_unescape(path))) + line[len(path):] if path else self.text(line)

    def command_line(self, text: str) -> str:
        """The kernel's command line: values that are none of the kernel's own common words give way."""
        words = []
        for word in re.split(r"(\s+|\"$)", text):
            key, equals, value = word.partition("=")
            if value.startswith("/"):
                words.append(key + equals + self._path(value))
            elif ":/" in value and "://" not in value:
                words.append(key + equals + self.source(value))
            elif forms.VOLUMES.fullmatch(key) and not re.match(r"(?:PART)?(?:UUID|LABEL)=", value):
                words.append(key + equals + self._path(value))
            elif _is_secret(key, value):
                words.append(key + equals + self.opaque("secret", value))
            else:
                words.append(self.text(word))
        return "".join(words)

    def _json_line(self, line: str) -> str:
        if not line.startswith(("{", "[")):
            return self.text(line)
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            return self.text(line)
        compact = '": ' not in line[:200]
        return json.dumps(self._json(document, ""), separators=(",", ":") if compact else None)

    def _json(self, value: Any, key: str) -> Any:
        low = key.lower()
        if isinstance(value, dict):
            if low.endswith("commit"):
                return value
            if low == "labels":
                return {str(self._json(k, key)): self._json(v, key) for k, v in value.items()}
            if low == "runtimes":
                return {self.plugin(k): self._json(v, "runtime") for k, v in value.items()}
            if low == "plugins":
                return {k: [self.plugin(each) if isinstance(each, str) else self._json(each, "plugin") for each in v]
                        if isinstance(v, list) else self._json(v, "plugin") for k, v in value.items()}
            # A reading {"ok": value} is of the kind that its key in the line above says.
            return {self.text(k): self._json(v, key if k == "ok" else k) for k, v in value.items()}
        if isinstance(value, list):
            return [self._plugin(each) if low == "plugins" and isinstance(each, dict) else self._json(each, key) for each in value]
        if not isinstance(value, str) or not value:
            return value
        if low == "labels":
            return "=".join(self.standins.name("label", part, "label{}") for part in value.split("="))
        if low == "name" and key == "Name":
            name, colon, port = value.partition(":")
            return self.host(name) + colon + port if port.isdigit() else self.host(value)
        if low in ("trustroot", "certissuersubject", "productlicense"):
            return self.standins.like("certificate", value)
        if low in _ID_KEYS:
            return self.opaque("serial number" if low not in ("uuid", "id", "nodeid") else "identifier", value)
        if low.endswith("version") or low in ("driver", "nvml", "operatingsystem", "architecture", "pci"):
            return self.text(value, patterns=False)
        if low == "name":
            return self.text(value, patterns=False)
        if low in ("container", "image"):
            return self.standins.name(f"{low} name", value, low + "{}")
        # A state is one letter; what a site's programs are called may tell what it works on.
        if low == "processes" and len(value) > 1:
            return self.standins.name("process name", value, "process{}")
        if low in ("httpproxy", "httpsproxy", "noproxy") or low.endswith("password"):
            return self.text(value) if "://" in value or "." in value else self.opaque("secret", value)
        if low in ("defaultruntime", "initbinary", "runtimetype") or (low == "path" and "/" not in value):
            return self.plugin(value)
        if low == "path":
            return self._program(value)
        if low == "dockerrootdir":
            return self._path(value)
        if low == "context":
            return value if value in ("default", "rootless", "desktop-linux") else self.standins.name("label", value, "label{}")
        return self.text(value)

    def plugin(self, name: str) -> str:
        """A plug-in's or a runtime's name where nothing else stands; those that everybody has stay."""
        head, colon, tag = name.partition(":")
        low = head.lower()
        if low in ENGINE:
            return name
        return (self._path(head) if "/" in head else self.standins.name("plug-in name", low, _FORM["plug-in name"])) + colon + tag

    def _program(self, path: str) -> str:
        """Where a plug-in or a runtime lies."""
        folder, slash, program = path.rpartition("/")
        folder = self.text(folder) if forms.SYSTEM_TREES.match(folder + slash) else self._path(folder)
        return folder + slash + (program if program.removeprefix("docker-") in ENGINE else self.pieces(program))

    def _plugin(self, found: dict[str, Any]) -> dict[str, Any]:
        """One of the client's plug-ins, with where it lies and who made it."""
        known = str(found.get("Name", "")).lower() in ENGINE
        made = self._json({key: value for key, value in found.items() if key != "Name"}, "plugin")
        for key in ("Vendor", "ShortDescription", "URL"):
            if isinstance(found.get(key), str) and not known:
                made[key] = self.standins.like("plug-in name", found[key])
        if isinstance(found.get("Name"), str):
            made["Name"] = self.plugin(found["Name"])
        return {key: made[key] for key in found if key in made}

    def node(self, node: Node) -> Node:
        """What replay takes of the inventory: ports by PCI address with role and rail; places and labels by stand-ins."""

        def place(kind: str, value: str | None) -> str | None:
            return None if value is None else self.standins.name(kind, value.lower(), f"{kind.split()[0]}{{}}")

        ports = {pci: PortPlan(plan.role, plan.rail, place("leaf name", plan.leaf)) for pci, plan in node.ports.items()}
        labels = {str(place("label", key)): str(place("label", value)) for key, value in node.labels.items()}
        sku, profile = (None if name is None else self.text(name, patterns=False) for name in (node.sku, node.profile))
        return Node(
            name=NODE, sku=sku, profile=profile, lifecycle=replace(node.lifecycle, owner=None, until=None), rack=place("rack", node.rack),
            leaf=tuple(str(place("leaf name", leaf)) for leaf in node.leaf), ports=ports, labels=labels,
            nvlink_domain=place("NVLink domain", node.nvlink_domain), power=place("power domain", node.power),
        )


# ---- what each pattern becomes; None leaves the text to the patterns after it


def _keep(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[0]


def _command_line(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + scrubber.command_line(match[2])


def _fingerprint(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    head, body = (match[1], match[2]) if match[1] else (match[3], match[4])
    return str(head) + scrubber.standins.like("key fingerprint", str(body))


def _userinfo(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    if any(ord(c) >= forms.PLACE for c in match[0]):
        return None
    password = ":" + scrubber.standins.like("secret", match[3][1:]) if match[3] else ""
    return f"{match[1]}{scrubber.user(match[2])}{password}@"


def _link_header(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    """Two MAC addresses as the kernel dumps them, and in letters behind."""
    pairs = match[2].split()
    for at in (0, 6):
        raw = "".join(pairs[at: at + 6])
        if len(set(raw)) > 1:
            pairs[at: at + 6] = re.findall("..", scrubber.standins.mac(raw))
    return match[1] + " ".join(pairs) + " "


def _like(kind: str) -> _Handler:
    return lambda scrubber, match: scrubber.standins.like(kind, match[0])


def _headed(kind: str) -> _Handler:
    """The first group stays, and is looked through for words; the second is the thing."""

    def handle(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
        quote = match[2][0] if match[2][0] in "\"'" else ""
        value = match[2].strip(quote) if quote else match[2]
        low = value.lower()
        folder = value.startswith("/") and match[1].lower().startswith("pwd")      # the working directory, and no password
        if not value or folder or ord(value[0]) >= forms.PLACE or low in ORDINARY:
            return None
        return match[1] + quote + (scrubber.word(value) if low in scrubber._kinds else scrubber.standins.like(kind, value)) + quote

    return handle


def _label(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    if any(ord(c) >= forms.PLACE for c in match[2]):
        return None
    return match[1] + scrubber.standins.like("identifier" if "UUID" in match[1] or match[1] == "by-uuid/" else "label", match[2])


def _uuid(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    kind = {"gpu-": "GPU UUID", "mig-": "MIG UUID"}.get(match[1].lower(), "UUID")
    raw = match[0][len(match[1]):]
    return match[1] + _redigit(raw, match[3], scrubber.standins.hexadecimal(kind, "".join(match.group(2, 4, 5, 6, 7)).lower()))


def _digits(scrubber: _Scrubber, digits: str) -> str:
    if len(digits) == 12:
        return scrubber.standins.mac(digits)
    return scrubber.standins.hexadecimal({16: "GUID", 32: "UUID"}.get(len(digits), "hexadecimal id"), digits)


def _pairs(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    raw = match[0].replace(match[1], "").lower()
    if len(set(raw)) == 1:
        return None
    if len(raw) == 40 and raw[8:12] == "fe80":       # an IPoIB address: flags and queue pair, then the port's GID
        return _redigit(match[0], match[1], raw[:24] + _digits(scrubber, raw[24:]))
    return _redigit(match[0], match[1], _digits(scrubber, raw))


def _groups(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    raw = match[0].replace(":", "").lower()
    if match[0].lower().startswith(forms.OUI_VENDOR) or len(set(raw)) == 1:
        return None
    return _redigit(match[0], ":", _digits(scrubber, raw))


def _cisco(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return _redigit(match[0], ".", _digits(scrubber, match[0].replace(".", "").lower()))


def _guid(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    if len(set(match[3])) == 1:
        return match[0]
    return match[1] + (match[2] or "") + _redigit(match[3], "", _digits(scrubber, match[3].lower()))


def _ppin(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + _redigit(match[2], "", scrubber.standins.hexadecimal("serial number", match[2].lower()))


def _second_is_digits(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + _redigit(match[2], "", _digits(scrubber, match[2].lower()))


def _container(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + _redigit(match[2], "", scrubber.standins.hexadecimal("container id", match[2].lower()))


def _bare(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    raw, prefix = match[2].lower(), match[1] or ""
    if len(set(raw)) == 1:
        return None
    before = match.string[max(0, match.start() - 40): match.start()]
    known = raw in scrubber._known
    if len(raw) >= 32 or known or forms.WORLDWIDE.search(before):
        return prefix + _redigit(match[2], "", _digits(scrubber, raw))
    address = raw.startswith(("0000", "ffff")) or "[Hardware Error]" in match.string or match.string[match.end(): match.end() + 1] == "-" \
        or forms.ADDRESSED.search(before) is not None
    return prefix + _redigit(match[2], "", _digits(scrubber, raw)) if prefix and len(raw) == 16 and not address else None


def _ipv6(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    text = match[0]
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        if not text.endswith(":") or text.endswith("::"):
            return None
        try:
            address, text = ipaddress.IPv6Address(text[:-1]), text[:-1]
        except ValueError:
            return None
    rest = match[0][len(text):]
    if address.is_loopback or address.is_unspecified:
        return match[0]
    full = address.exploded
    if full == text.lower() and full.startswith("fe80:"):        # a GID: its last half is the port's GUID
        return text[:20] + _redigit(text[20:], ":", _digits(scrubber, full[20:].replace(":", ""))) + rest
    made = scrubber.standins.ipv6(full)
    return (ipaddress.IPv6Address(made).exploded if full == text.lower() else made) + rest


def _ipv4(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    text = match[1]
    if any(int(part) > 255 or (len(part) > 1 and part[0] == "0") for part in text.split(".")):
        return None
    if text.startswith(("0.", "127.", "255.")):      # the first are versions, or the address 0.0.0.0
        return text
    before, after = match.string[max(0, match.start() - 24): match.start()], match.string[match.end(): match.end() + 20]
    reached = forms.REACHED.match(after) is not None
    if forms.VERSION.search(before) and not reached:
        return text
    if forms.MAYBE_VERSION.search(before) or forms.MAYBE_RELEASE.match(after):
        public = ipaddress.IPv4Address(text).is_global
        if not reached and (public or (forms.SPEAKS_OF_CODE.match(after) and not forms.TOWARDS.search(before))):
            return text
    return scrubber.standins.ipv4(text)


def _dashed(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    address = match[2].replace("-", ".")
    return match[1] + scrubber.standins.ipv4(address).replace(".", "-") if _is_ip(address) else None


def _mail(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    if forms.UNIT.search(match[0]) or match[2].lower() in ORDINARY:
        return None
    host = match[2].rstrip(".-")
    if host.replace(".", "").isdigit() or forms.NO_NAME.match(host):
        return None
    scrubber.standins.count("login", f"{match[1]}@{host}".lower())
    return f"{scrubber.user(match[1])}@{_named(scrubber, host)}{match[2][len(host):]}"


def _named(scrubber: _Scrubber, name: str) -> str:
    low = name.lower()
    if low in scrubber._kinds:
        return scrubber.word(low)
    if low.count(".") == 1:
        return scrubber.standins.name("domain name", low, "domain{}.example")
    return scrubber.host(name)


def _home(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + scrubber.user(match[2]) + scrubber._path(match[3])


def _user_phrase(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    """A name that is too short to be looked for elsewhere is replaced where a user stands."""
    made, end = "", match.start()
    for at in range(1, (match.re.groups or 0) + 1):
        name = match[at]
        if name.lower() not in scrubber._kinds and name not in forms.BRIEF:
            made += match.string[end: match.start(at)] + scrubber.user(name)
            end = match.end(at)
    return made + match.string[end: match.end()] if made and not forms.UNIT.search(match[0]) else None


def _certificate(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    """Words that authorities' certificates share stay; the rest tells who built the kernel."""
    def term(word: re.Match[str]) -> str:
        if forms.KEY_ID.fullmatch(word[0]):
            return _redigit(word[0], "", scrubber.standins.hexadecimal("key fingerprint", word[0].lower()))
        low = word[0].lower()
        if low in scrubber._kinds:
            return scrubber.word(low)
        return word[0] if low.strip(".-") in AUTHORITIES or low.isdigit() else scrubber.standins.like("certificate", word[0])

    return match[1] + forms.TERM.sub(term, match[2])


def _node_desc(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + forms.TERM.sub(lambda word: word[0] if forms.DESCRIBED.fullmatch(word[0]) else scrubber.host(word[0]), match[2])


def _identified(kind: str) -> _Handler:
    """The first group stays, and the second is hexadecimal."""
    return lambda scrubber, match: match[1] + _redigit(match[2], "", scrubber.standins.hexadecimal(kind, match[2].lower()))


def _array(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return _redigit(match[1], ":", _digits(scrubber, match[1].replace(":", "").lower()))


def _mount_unit(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return scrubber.pieces(match[1]) + match[2]


def _file_path(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    path = match[0]
    if forms.SYSTEM_TREES.match(path) and not _is_volume(path):
        return None
    return "/".join(part if part.lower() in ORDINARY else scrubber.pieces(part) for part in path.split("/"))


def _fqdn(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    low = match[1].lower()
    if low in PUBLIC or any(low.endswith(f".{public}") for public in PUBLIC):
        return match[1]
    return _named(scrubber, match[1])


# Identifiers that keep their form when a secret is one.
_FORMS = (forms.UUID, forms.PAIRS, forms.IPV4, forms.IPV6, forms.FQDN, forms.BARE, forms.DOCKER_ID)
_HANDLERS: tuple[tuple[re.Pattern[str], _Handler], ...] = (
    *((pattern, _user_phrase) for pattern in forms.USERS),
    (forms.COMMAND_LINE, _command_line), (forms.KEEP, _keep), (forms.FINGERPRINT, _fingerprint), (forms.USERINFO, _userinfo),
    (forms.AUTHORIZATION, _headed("secret")), (forms.LINK_HEADER, _link_header), (forms.SECRET, _headed("secret")), (forms.UUID, _uuid),
    (forms.HOMES, _home), (forms.DOCKER_ID, _like("identifier")), (forms.PAIRS, _pairs), (forms.IPV6, _ipv6), (forms.GUID, _guid),
    (forms.PPIN, _ppin), (forms.GROUPS, _groups), (forms.ARRAY, _array), (forms.CLOUD, _identified("cloud id")),
    (forms.VOLUME, _identified("cloud id")), (forms.OCID, _like("cloud id")), (forms.INTERFACE, _identified("interface id")),
    (forms.AUDIT_HEX, _identified("hexadecimal id")), (forms.CERTIFICATE, _certificate), (forms.NODE_DESC, _node_desc),
    (forms.CISCO, _cisco), (forms.IPV4, _ipv4), (forms.DASHED, _dashed), (forms.LABEL, _label), (forms.SERIAL, _headed("serial number")),
    (forms.SERIAL_CAPITALS, _headed("serial number")), (forms.SERIAL_LETTERS, _headed("serial number")), (forms.ENX, _second_is_digits),
    (forms.CONTAINER, _container), (forms.BARE, _bare), (forms.TOKEN, _like("secret")), (forms.SSID, _headed("SSID")),
    (forms.DISK_ID, _headed("serial number")), (forms.MAIL, _mail), (forms.FQDN, _fqdn),
)
# After the learned words, which in a path are known best.
_PATHS: tuple[tuple[re.Pattern[str], _Handler], ...] = ((forms.MOUNT_UNIT, _mount_unit), (forms.FILE_PATH, _file_path))


# ---- small things


def _touches(last: str, following: str) -> bool:
    return following.isascii() and (following.isalpha() if last.isalpha() else following.isalnum())


def _redigit(raw: str, separator: str, digits: str) -> str:
    """`digits` in the form of `raw`: its separators and its case."""
    letters = "".join(c for c in raw.replace("\\x2d", "") if c.isalpha())
    if letters and letters.isupper():
        digits = digits.upper()
    if not separator:
        return digits
    made, at = [], 0
    for part in raw.split(separator):
        made.append(digits[at: at + len(part)])
        at += len(part)
    return separator.join(made)


def _is_volume(path: str) -> bool:
    return path.startswith("/dev/") and path.count("/") == 3 and forms.DEV_FOLDERS.match(path) is None


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _parameters(text: str) -> Iterable[tuple[str, str]]:
    for word in text.split():
        key, equals, value = word.partition("=")
        if equals:
            yield key, value


_PLAIN = re.compile(
    r"(?i)(?:on|off|auto|yes|no|none|force|nomodeset|strict|full|lazy|pt|debug|info|quiet|[yn]|[0-9.,:-]{1,11}[kmgt]?|0x[0-9a-f]{1,8})")


def _is_secret(key: str, value: str) -> bool:
    """Whether a parameter of the kernel's command line has a value that nobody but its owner can make sense of."""
    name = key.lower().strip("\"'").replace("-", "_")
    if not value or value.startswith(("/", "UUID=", "PARTUUID=", "LABEL=", "PARTLABEL=")) or (":/" in value and "://" not in value):
        return False
    return not (name in PARAMETERS or name.partition(".")[0] in PARAMETERS or _PLAIN.fullmatch(value.rstrip("\"'")))


_OCTAL = re.compile(r"\\([0-7]{3})")


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def _escape(text: str) -> str:
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", text)


def _variants(word: str) -> Iterable[str]:
    """A word as the kernel's log, mountinfo, device mapper and systemd write it."""
    yield word
    if "-" in word:
        yield word.replace("-", "--")
        yield word.replace("-", "\\x2d")
    if any(ord(c) > 126 or ord(c) < 33 for c in word):
        raw = word.encode("utf-8", "surrogateescape" if not any(0xD800 <= ord(c) < 0xDC80 for c in word) else "replace")
        yield "".join(chr(b) if 32 < b < 127 else f"\\x{b:02x}" for b in raw)
        yield "".join(chr(b) if 32 < b < 127 else f"\\{b:03o}" for b in raw)


def _plugins(listed: Any) -> Iterable[str]:
    """Names of plug-ins and runtimes: {"Volume": ["local"]} and {"runc": {"path": "runc"}}."""
    for key, value in listed.items() if isinstance(listed, dict) else ():
        if isinstance(value, dict):
            yield key
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, str))


def _json_lines(text: str) -> Iterable[Any]:
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                continue


def _whole(text: str) -> str:
    """A text that was cut, without the piece of a word at either end: a part of a name would not be known for what it is."""
    first, newline, rest = text.partition("\n")
    if newline and not forms.RECORD.match(first) and forms.RECORD.match(rest):
        text = rest
    return text if text.endswith("\n") else text[: max(text.rfind(" "), text.rfind("\n"), text.rfind(",")) + 1]


def _texts(look: Recording) -> Iterable[str]:
    """Every text of the look that may hold a name."""
    if look.failure is not None:
        yield look.failure.reason
    if look.host is not None:
        yield from (look.host.hostname, look.host.boot_id)
    for capture in look.captures.values():
        yield from (capture.text, capture.stderr, capture.note)
        for path, entry in capture.files.items():
            yield from (path, entry.text)
