"""Reads OpenSSH's client log (-E, LogLevel DEBUG1): how far it got, and at its end why, in a line. Written
after the messages of OpenSSH 7.4 to 10. An unknown message only costs a better wording: the stage is then the
last that was reached, and the line is quoted. The log quotes the server, so it is foreign: bounded, and
cleaned where it is shown."""

from __future__ import annotations

import os
import re
import shlex
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from inventory.transport.base import Stage
from inventory.transport.session import last_line, one_line
from inventory.transport.wire import FORBIDDEN, OURS, place

MOST_BYTES = 1024 * 1024        # of log and other words before the session; a login takes some 6 KB
_LONGEST_LINE = 4096
_LINES = 200


class Reached(IntEnum):
    """How far ssh got, in the order of a connection."""

    START = 0       # reading its configuration, looking up the name
    MASTER = 1      # asking a kept connection for a session
    DIAL = 2        # waiting for TCP
    BANNER = 3      # connected, or a proxy was started: waiting for the banner
    EXCHANGE = 4    # key exchange and host key
    AUTH = 5
    LOGIN = 6       # logged in: the session is being opened
    RUNNING = 7     # the command was sent


_MILESTONES = (
    (re.compile(r"debug1: auto-mux: Trying existing master"), Reached.MASTER),
    (re.compile(r"debug1: Connecting to (?P<host>\S+)(?: \[(?P<address>[^\]]*)\])? port (?P<port>\d+)"),
     Reached.DIAL),
    (re.compile(r"debug1: Executing proxy command: (?:exec )?(?P<command>.*)"), Reached.BANNER),
    (re.compile(r"debug1: Connection established\."), Reached.BANNER),
    (re.compile(r"debug1: Remote protocol version "), Reached.EXCHANGE),
    (re.compile(r"debug1: SSH2_MSG_NEWKEYS received"), Reached.AUTH),
    (re.compile(r"Authenticated to |debug1: Authentication succeeded"), Reached.LOGIN),
    (re.compile(r"debug1: (?:Sending command: |mux_client_request_session: master session id)"),
     Reached.RUNNING),
)
_OFFERED = re.compile(
    r"debug1: Server host (?P<certificate>certificate|key): (?P<type>\S+) (?P<print>SHA256:[A-Za-z0-9+/]+)")
_ALLOWED = re.compile(r"debug1: Authentications that can continue: (\S+)")
_TRIED = re.compile(r"debug1: Offering (?:\S+ )?public key: (.+)|debug1: Trying private key: (.+)")
_WANTED = re.compile(r"debug1: Server accepts key: (.+)")
_PARTIAL = re.compile(r"Authenticated (?:to \S+ )?(?:\S+ )?using .* with partial success")
_FINGERPRINT = re.compile(r"(?: \S+)? SHA256:\S+.*$")
_UNUSABLE_KEY = re.compile(r"no such identity: (.+): (.+)$|Load key \"(.+)\": (.+)")
_EXITED = re.compile(r"debug1: client_input_channel_req: channel \d+ rtype exit-(?:status|signal)")
_BANNER_LINE = re.compile(r"debug1: (?:kex_exchange|ssh_exchange)_identification: (?:banner line \d+: )?(.+)")
_NOT_SSH = re.compile(
    r"debug1: kex_exchange_identification: banner line|debug1: ssh_exchange_identification: (?!Connection )")
_HOP = re.compile(r"-W '?\[?[^' ]*\]?:\d+'? (\S+)$")

_CONFIG = re.compile(
    r"[Bb]ad configuration option|terminating, \d+ bad|Bad owner or permissions|Bad number|line \d+: |"
    r"Missing (?:yes|argument)|unknown key %|vdollar_percent_expand|Can't open user "
    r"config|Unsupported option|"
    r"[Jj]umphost loop|Invalid -J|Bad stdio")
# What an ssh here says that cannot start its proxy.
_NO_PROCESS = re.compile(r"^(?:fork failed|Could not create \S+ to communicate with the proxy): .*",
                         re.MULTILINE)
_NO_NAME = re.compile(r"Could not resolve hostname (?P<host>\S+): (?P<why>.*)")
_NO_TCP = re.compile(
    r"connect to (?:host (?P<host>\S+)|address (?P<address>\S+)) port (?P<port>\d+): (?P<why>.*)")
_NO_TCP_YET = re.compile(r"debug1: connect to address \S+ port \d+: (?P<why>.*)")      # another may answer
_OURS = tuple(map(os.strerror, OURS))
_UNKNOWN = re.compile(
    r"No (?P<type>\S+) host (?:key|certificate) is known for (?P<name>\S+) and you have requested strict")
_CHANGED = re.compile(r"Host key for (?P<name>\S+) has changed and you have requested strict")
_OFFENDING = re.compile(r"Offending (?:\S+ )?key(?: for IP)? in (?P<file>.+):(?P<line>\d+)")
_REVOKED = re.compile(r"(?:key for (?P<name>\S+) (?:is marked as revoked|was revoked)|Host key \S+ \S+ "
                      r"revoked by file (?P<file>.+)|"
                      r"in revoked keys file (?P<unread>.+))")
_CERTIFICATE = re.compile(r"(?:error: )?(Certificate invalid: .*|"
                          r".*[Cc]ertificate .*(?:expired|not yet valid|not a listed|lacks|revoked).*)")
_DENIED = re.compile(r"Permission denied(?:, please try again\.)? ?\((?P<methods>[^)]*)\)")
_TOO_MANY = re.compile(r"Too many authentication failures")
_NEGOTIATE = re.compile(r"Unable to negotiate.*?: (?P<why>.*)")
_DISCONNECT = re.compile(r"Received disconnect from .*?:\d+: (?P<why>.*)")
_WAITED = re.compile(
    r"[Cc]onnection timed out|Timeout before|timed out during banner exchange|[Oo]peration timed out")
_FORWARD = re.compile(r"channel \d+: open failed: (?P<why>.*)")
_OF_THE_HOP = re.compile(r"administratively prohibited|resource shortage: ?(?P<why>.*)")
_NO_SESSION = re.compile(r"channel \d+: open failed: (?P<why>.*)|Session open refused by peer(?P<peer>)")
_NO_COMMAND = re.compile(
    r"(?:exec|shell) request failed on channel|command execution failed|exec request failed")
_GONE = re.compile(r"onnection (?:to \S+ )?(?:closed|reset|aborted)|Broken pipe|losed by remote host|read "
                   r"from master failed|"
                   r"Control master terminated|not responding|Connection lost|ssh_exchange_identification: "
                   r"|kex_exchange_identification: |"
                   r"ssh_dispatch_run_fatal")
_NO_BANNER = re.compile(
    r"banner line (?:too long|contains invalid)|no SSH identification string|: invalid format$", re.MULTILINE)
_NOTHING = re.compile(
    r"^(?:debug\d: |\*\*|Connection closed by UNKNOWN|@|\s*$|Warning: Permanently|Authenticated to |"
    r"Transferred: |Bytes per second)")
_TEMPORARY = re.compile(r"[Tt]emporary failure")


@dataclass(frozen=True)
class SshFailure:
    """Why ssh ended; `again` when the other side dropped us before the login, so that a retry may succeed;
    `late` when there was no answer in time, or the connection was lost after the login."""

    stage: Stage
    reason: str
    again: bool = False
    late: bool = False

    @property
    def stuck(self) -> Stage | None:
        """As in `Failure`."""
        return None if not self.late else Stage.CONNECT if self.stage is Stage.HEAD else self.stage


class OpenSshLog:
    """Feed it ssh's log, and as `stderr` what comes before the session: a proxy's messages, banners. `place`
    names the node until the log names its address."""

    def __init__(self, place: str) -> None:
        self.who = place
        self.reached = Reached.START
        self.proxy: str | None = None
        self.jumps = False         # the proxy is ssh itself, on its way through jump hosts
        self.exited = False         # the remote command, of its own accord
        self.own = False            # a connection of this ssh's own, not one that was kept
        self.fed = 0
        self._rest = b""
        self._stderr = bytearray()
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._banner: list[str] = []
        self._tried: list[str] = []
        self._notes: list[str] = []
        self._no_tcp: list[str] = []    # why, for each address
        self._allowed = ""
        self._offered = ""
        self._wanted = ""           # the key that the server would take
        self._partial = False       # it has taken one, and wants more
        self._not_ssh = False        # something came in place of a banner

    def feed(self, data: bytes) -> bool:
        """Takes a piece of the log; returns whether ssh got further."""
        before = self.reached
        self.fed += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        # Only the start of a line matters.
        self._rest = rest[:_LONGEST_LINE]
        for line in lines:
            self._line(line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip("\r"))
        return self.reached > before

    def stderr(self, data: bytes) -> None:
        """Takes standard error from before the session."""
        self.fed += len(data)
        self._stderr += data
        del self._stderr[:-64 * 1024]

    @property
    def through(self) -> bool:
        """Whether the way leads through a proxy that may have failed, not the node: there was no banner yet,
        or a connection ended without a reason."""
        return self.proxy is not None and (self.reached <= Reached.BANNER
                                           or any(map(_GONE.search, self._lines)))

    @property
    def refused(self) -> bool:
        """Whether a jump host is alive and could not connect to what comes next."""
        match = _FORWARD.search(bytes(self._stderr).decode("utf-8", "replace"))
        return match is not None and not _OF_THE_HOP.match(match["why"])

    @property
    def flooded(self) -> bool:
        """Whether more data came before the session than any login sends."""
        return self.fed > MOST_BYTES

    @property
    def troubled(self) -> bool:
        """Whether ssh logged that something went wrong."""
        return any(not _NOTHING.match(line) for line in self._lines)

    @property
    def hint(self) -> str:
        """A proxy's last message, to append to a sentence."""
        said = last_line(bytes(self._stderr))
        return f": {said}" if said else ""

    def verdict(self, name: str) -> SshFailure:
        """Why ssh ended before our command ran on the node `name`."""
        self.feed(b"\n")
        said = [line for raw in bytes(self._stderr).splitlines()
                if not _NOTHING.match(line := one_line(raw, 400))]
        if (self.proxy is not None and self.reached <= Reached.BANNER
            and (match := _NO_PROCESS.search("\n".join([*said, *self._lines]))) is not None):
            return SshFailure(Stage.HEAD, f"this machine cannot start what leads to {self.who}: {match[0]} "
                                          "(ulimit -u?); try a smaller --fanout", late=True)
        if self.proxy is not None and self.reached <= Reached.BANNER:
            found = self._proxy_failure(said)
            if found is not None:
                return found
        own = [line for line in self._lines if not _NOTHING.match(line)]
        if self.proxy is not None and self.reached <= Reached.BANNER and _WAITED.search("\n".join(own)):
            return SshFailure(Stage.CONNECT,
                              f"{self.proxy} did not connect us to {self.who} in time{self.hint}", late=True)
        # ssh always writes errors of its command line, and some fatal ones, to standard error.
        return self._judge([*said, *own] if self.reached is Reached.START else own or said, name)

    def _line(self, line: str) -> None:
        if _PARTIAL.search(line):
            self._partial = True
            return
        for pattern, reached in _MILESTONES:
            match = pattern.match(line)
            if match is not None:
                self._milestone(match, reached)
                return
        if match := _OFFERED.match(line):
            self._offered = f"{match['type']} {match['print']}"
        elif match := _NO_TCP_YET.match(line):
            self._no_tcp.append(match["why"])
            del self._no_tcp[20:]
        elif match := _ALLOWED.match(line):
            self._allowed = ", ".join(match[1].split(",")[:8])
        elif match := _TRIED.match(line):
            self._tried.append(_FINGERPRINT.sub("", match[1] or match[2])[:200])
            del self._tried[20:]
        elif match := _WANTED.match(line):
            self._wanted = _FINGERPRINT.sub("", match[1])[:200]
        elif match := _UNUSABLE_KEY.search(line):
            self._notes.append(f"{match[1] or match[3]}: {match[2] or match[4]}"[:200])
            del self._notes[20:]
        elif _EXITED.match(line):
            self.exited = True
        elif self.reached is Reached.BANNER and (match := _BANNER_LINE.match(line)):
            self._not_ssh = self._not_ssh or bool(_NOT_SSH.match(line))
            self._banner.append(match[1][:200])
            del self._banner[5:]
        elif not line.startswith("debug"):
            self._lines.append(line)

    def _milestone(self, match: re.Match[str], reached: Reached) -> None:
        self.own = self.own or reached in (Reached.DIAL, Reached.BANNER)
        if reached is Reached.DIAL:
            address = (match["host"] if "." in match["host"] or ":" in match["host"] else match["address"]
                       or match["host"])
            self.who = place(address, int(match["port"]))
        elif "command" in match.re.groupindex:
            hop = _HOP.search(match["command"])
            self.proxy = f"the jump host {hop[1]}" if hop else "the ProxyCommand"
            self.jumps = hop is not None
        self.reached = max(self.reached, reached)

    def _proxy_failure(self, said: list[str]) -> SshFailure | None:
        """The failure that a ProxyJump's ssh, or a ProxyCommand, reported."""
        text = "\n".join(said)
        proxy = self.proxy or ""
        if match := _FORWARD.search(text):
            why = match["why"].removeprefix("connect failed: ")
            if (own := _OF_THE_HOP.match(why)) is not None:
                # Of a chain this is any hop but the last: which one, an examination finds out.
                return SshFailure(Stage.JUMP, f"{_hop_name(proxy)}: {FORBIDDEN}" if own["why"] is None else
                                  f"{_hop_name(proxy)}: it has no room for another connection "
                                  f"({own['why'] or 'no reason given'})", late=own["why"] is not None)
            return SshFailure(Stage.CONNECT, f"{proxy} cannot connect to {self.who}: {why}",
                              late="timed out" in why)
        hop = _hop_name(proxy) if self.jumps else proxy
        if match := _UNKNOWN.search(text):
            return SshFailure(Stage.JUMP, f"{hop}: {match['name']} is not known by its {match['type']} "
                                          "host key; compare that with its console, then enrol it with: "
                                          f"ssh -o StrictHostKeyChecking=ask {_hop_name(proxy)} true")
        if not said:
            return None
        if match := _NO_NAME.search(text):
            # Only jump hosts are looked up here; the last of them looks up the node.
            remedy = ("correct `proxy_jump` in the inventory, or give it a HostName in ssh_config"
                      if self.jumps else "correct that in ssh_config")
            return SshFailure(Stage.JUMP, f"{match['host']}: "
                              f"{_no_name(match, '', remedy).reason.removeprefix(match['host'] + ' ')}")
        judged = _recognised(said, proxy)
        if judged is not None:
            # An ssh here connects to the first hop only, by TCP.
            dialled = _NO_TCP.search(text)
            first = (dialled["host"] or dialled["address"]) if dialled is not None else hop
            return SshFailure(Stage.JUMP, f"{first}: {judged.reason.removeprefix(f'{proxy}: ')}")
        if _GONE.search(text):
            return SshFailure(Stage.CONNECT, f"{proxy} dropped the connection: {said[-1]}", again=True)
        return SshFailure(Stage.CONNECT, f"{proxy} ended without a connection to {self.who}: {said[-1]}")

    def _judge(self, lines: list[str], name: str) -> SshFailure:
        text = "\n".join(lines)
        judged = _recognised(lines, self.who, self._no_tcp)
        offers = f"it offers {self._offered}" if self._offered else "it showed no key"
        if _REVOKED.search(text) or _CHANGED.search(text):
            return self._bad_key(text, offers, shlex.quote(name))
        if match := _UNKNOWN.search(text):
            why = f"; {found[1]}" if (found := _CERTIFICATE.search(text)) else ""
            return SshFailure(Stage.HOST_KEY, f"{match['name']} is not in the known_hosts files{why}; "
                                           f"{offers}; compare with the node's console, then pin it with: "
                                           f"muster inventory enroll {shlex.quote(name)}")
        if self.reached is Reached.AUTH and (_DENIED.search(text) or _TOO_MANY.search(text)):
            return SshFailure(Stage.AUTH, self._not_let_in(text))
        if judged is not None:
            return judged
        last = lines[-1] if lines else "ssh ended without a message"
        said = match["why"] if (match := _DISCONNECT.search(text)) else ""
        if self.reached >= Reached.LOGIN:
            if match := _NO_SESSION.search(text):
                return SshFailure(Stage.LOGIN,
                                  f"{self.who} opens no session: {match['why'] or 'refused by the node'}")
            if _NO_COMMAND.search(text):
                return SshFailure(Stage.LOGIN, f"{self.who} refuses to run a command for this user")
            return SshFailure(Stage.LOGIN, f"{self.who} hung up after the login ({said or last})", late=True)
        if self.reached is Reached.AUTH:
            return SshFailure(
                Stage.AUTH, "; ".join([f"{self.who} closed the connection during the login ({said or last}); "
                                       f"tried {_few(self._tried) or 'nothing'}", *self._notes]))
        if self.reached is Reached.EXCHANGE:
            if said:
                return SshFailure(Stage.CONNECT, f"{self.who} ended the key exchange: {said}")
            if (_GONE.search(text) and "incorrect" not in text and "signature" not in text
                and "invalid" not in text):
                return SshFailure(Stage.CONNECT, f"{self.who} dropped the connection during the key exchange",
                                  again=True)
            stage = (Stage.HOST_KEY if "Host key verification failed" in text or "signature" in text
                     else Stage.CONNECT)
            return SshFailure(stage, f"no key exchange with {self.who}: {last}")
        if self.reached is Reached.BANNER:
            return self._no_banner(text, last)
        stage = Stage.CONNECT if self.reached is Reached.DIAL else Stage.RESOLVE
        return SshFailure(stage, f"ssh could not begin with {self.who}: {last}")

    def _bad_key(self, text: str, offers: str, name: str) -> SshFailure:
        match = _REVOKED.search(text)
        if match is not None and match["unread"]:
            return SshFailure(Stage.HOST_KEY, "no host key is trusted while RevokedHostKeys cannot be read: "
                                              f"{match['unread']}")
        if match is not None:
            by = f"{match['file']} revokes" if match["file"] else "the known_hosts files mark as revoked"
            return SshFailure(Stage.HOST_KEY, f"{self.who} {offers.removeprefix('it ')}, which {by}")
        changed, old = _CHANGED.search(text), _OFFENDING.search(text)
        known = changed["name"] if changed else self.who
        reason = f"the host key of {known} has changed: {offers}"
        if old is not None:
            at = f"{shlex.quote(known)} -f {shlex.quote(old['file'])}"
            reason += f", {old['file']}:{old['line']} holds another; see it with: ssh-keygen -l -F {at}"
        return SshFailure(Stage.HOST_KEY,
                          f"{reason}; only if the node was reinstalled, pin the new one with: muster "
                                       f"inventory enroll {name} --replace {name}")

    def _not_let_in(self, text: str) -> str:
        match = _DENIED.search(text)
        allowed = ", ".join(match["methods"].split(",")[:8]) if match else self._allowed
        if not match:
            return "; ".join([f"{self.who} closed the connection while we were logging in (Too many "
                              f"authentication failures); tried {_few(self._tried)}", *self._notes,
                              "name the right key with `identity_file`"])
        if self._partial:
            return (f"{self.who} took a key of ours and asks for more ({allowed}), which needs a person to "
                    "type")
        if self._wanted:
            return "; ".join([f"{self.who} would take {self._wanted}, which cannot be used here (encrypted, "
                              "and in no agent?)",
                              *self._notes])
        if "publickey" not in allowed and "gssapi" not in allowed and "hostbased" not in allowed:
            return f"{self.who} lets us in by {allowed} only, but there is no one to type"
        if not self._tried and "publickey" in allowed:
            return "; ".join([f"there is no key to try for {self.who}", *self._notes, f"it allows {allowed}",
                              "name one with `identity_file`, or start an agent"])
        return "; ".join([f"{self.who} took no key of ours; tried {_few(self._tried)}; it allows {allowed}",
                          *self._notes])

    def _no_banner(self, text: str, last: str) -> SshFailure:
        banner = " ".join(self._banner)
        if "MaxStartups" in banner:
            return SshFailure(Stage.CONNECT, f"{self.who} closed the connection before its banner (sshd's "
                                             "MaxStartups)", again=True)
        if "Not allowed at this time" in banner:
            return SshFailure(Stage.CONNECT, f"{self.who}: sshd penalises this address (PerSourcePenalties); "
                                             "wait, or exempt the address there")
        if self._not_ssh:
            return SshFailure(Stage.CONNECT,
                              f"{self.who} does not speak SSH: it sends {one_line(banner, 60)!r}")
        if _NO_BANNER.search(text):
            return SshFailure(Stage.CONNECT, f"{self.who} does not speak SSH: it sends data that is not a "
                                             "banner, without end")
        if self.proxy is not None and _GONE.search(text):
            return SshFailure(Stage.CONNECT, f"{self.who} was lost before its banner: it, or {self.proxy}, "
                                             "hung up without a message", again=True)
        if _GONE.search(text):
            return SshFailure(Stage.CONNECT, f"{self.who} closed the connection before its banner (sshd's "
                                             "MaxStartups, or a TCP wrapper)", again=True)
        return SshFailure(Stage.CONNECT, f"{self.who} does not speak SSH: {last}")


def _recognised(lines: list[str], who: str, no_tcp: Sequence[str] = ()) -> SshFailure | None:
    """What is said in the same words about a node and about a machine on the way to it. `no_tcp` is why, for
    each address; the lines say it for the last."""
    text = "\n".join(lines)
    if match := _NO_NAME.search(text):
        return _no_name(match, "", "give one with `address` in the inventory or HostName in ssh_config")
    if match := _NO_TCP.search(text):
        theirs = [why for why in (no_tcp or [match["why"]]) if why not in _OURS]
        why = theirs[-1] if theirs else match["why"]
        return SshFailure(Stage.CONNECT if theirs else Stage.HEAD,
                          _no_tcp(place(match["host"] or match["address"], int(match["port"])), why),
                          late="timed out" in why or not theirs)
    if match := _NEGOTIATE.search(text):
        return SshFailure(Stage.CONNECT, f"no key exchange with {who}: {match['why']}")
    if _CHANGED.search(text) or _REVOKED.search(text) or "Host key verification failed" in text:
        return SshFailure(Stage.HOST_KEY, f"{who}: {_last_about_keys(lines)}")
    if _DENIED.search(text) or _TOO_MANY.search(text):
        return SshFailure(Stage.AUTH, f"{who}: {lines[-1]}")
    if _CONFIG.search(text):
        return SshFailure(Stage.RESOLVE, "ssh refuses its configuration: "
                                         f"{next(line for line in lines if _CONFIG.search(line))}")
    if _WAITED.search(text):
        return SshFailure(Stage.CONNECT,
                          f"{who} did not answer (host down, a firewall that drops, or a hung sshd)",
                          late=True)
    return None


def _no_name(match: re.Match[str], what: str, remedy: str) -> SshFailure:
    if _TEMPORARY.search(match["why"]):
        return SshFailure(Stage.RESOLVE, f"cannot look up {what}{match['host']}: the resolver does not "
                                         "answer; check /etc/resolv.conf here", late=True)
    return SshFailure(Stage.RESOLVE, f"{what}{match['host']} has no address ({match['why']}); {remedy}")


def _no_tcp(who: str, why: str) -> str:
    if "refused" in why:
        return f"{who} refused the connection; is sshd running there, on that port?"
    if "timed out" in why:
        return f"{who} did not answer (host down, or a firewall that drops)"
    if "o route" in why or "unreachable" in why:
        return f"no route to {who} ({why})"
    return f"cannot connect to {who}: {why}"


def _last_about_keys(lines: list[str]) -> str:
    words = [line for line in lines
             if re.search(r"revoked|changed and you|is known for|ertificate|Error checking", line)]
    return words[-1] if words else "Host key verification failed"


def _few(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _hop_name(proxy: str) -> str:
    return shlex.quote(proxy.rpartition(" ")[2])
