"""What the match of each pattern becomes; None leaves the text to the patterns after it.
The order of the table is that of the work."""

from __future__ import annotations

import ipaddress
import re

from healthcheck.scrub import paths
from healthcheck.scrub import patterns as forms
from healthcheck.scrub.classify import is_ip, is_public, is_volume
from healthcheck.scrub.engine import Handler, Scrubber, Table
from healthcheck.scrub.words import AUTHORITIES, ORDINARY


def _keep(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    return match[0]


def _command_line(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + paths.command_line(scrubber, match[2])


def _fingerprint(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    head, body = (match[1], match[2]) if match[1] else (match[3], match[4])
    return str(head) + scrubber.replacements.like("key fingerprint", str(body))


def _userinfo(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    if any(ord(c) >= forms.PLACE for c in match[0]):
        return None
    password = ":" + scrubber.replacements.like("secret", match[3][1:]) if match[3] else ""
    return f"{match[1]}{scrubber.user(match[2])}{password}@"


def _link_header(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    """Two MAC addresses as the kernel dumps them, and in letters behind."""
    pairs = match[2].split()
    for at in (0, 6):
        raw = "".join(pairs[at: at + 6])
        if len(set(raw)) > 1:
            pairs[at: at + 6] = re.findall("..", scrubber.replacements.mac(raw))
    return match[1] + " ".join(pairs) + " "


def _like(kind: str) -> Handler:
    return lambda scrubber, match: scrubber.replacements.like(kind, match[0])


def _headed(kind: str) -> Handler:
    """The first group stays, and is looked through for words; the second is the thing."""

    def handle(scrubber: Scrubber, match: re.Match[str]) -> str | None:
        quote = match[2][0] if match[2][0] in "\"'" else ""
        value = match[2].strip(quote) if quote else match[2]
        low = value.lower()
        # the working directory, and no password
        folder = value.startswith("/") and match[1].lower().startswith("pwd")
        if not value or folder or ord(value[0]) >= forms.PLACE or low in ORDINARY:
            return None
        return match[1] + quote + (scrubber.word(value) if low in scrubber.names.kinds
                                   else scrubber.replacements.like(kind, value)) + quote

    return handle


def _label(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    if any(ord(c) >= forms.PLACE for c in match[2]):
        return None
    return match[1] + scrubber.replacements.like("identifier" if "UUID" in match[1] or match[1] == "by-uuid/"
                                                 else "label", match[2])


def _uuid(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    kind = {"gpu-": "GPU UUID", "mig-": "MIG UUID"}.get(match[1].lower(), "UUID")
    raw = match[0][len(match[1]):]
    return match[1] + _redigit(
        raw, match[3], scrubber.replacements.hexadecimal(kind, "".join(match.group(2, 4, 5, 6, 7)).lower()))


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


def _digits(scrubber: Scrubber, digits: str) -> str:
    if len(digits) == 12:
        return scrubber.replacements.mac(digits)
    return scrubber.replacements.hexadecimal({16: "GUID", 32: "UUID"}.get(len(digits), "hexadecimal id"),
                                             digits)


def _pairs(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    raw = match[0].replace(match[1], "").lower()
    if len(set(raw)) == 1:
        return None
    # an IPoIB address: flags and queue pair, then the port's GID
    if len(raw) == 40 and raw[8:12] == "fe80":
        return _redigit(match[0], match[1], raw[:24] + _digits(scrubber, raw[24:]))
    return _redigit(match[0], match[1], _digits(scrubber, raw))


def _groups(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    raw = match[0].replace(":", "").lower()
    if match[0].lower().startswith(forms.OUI_VENDOR) or len(set(raw)) == 1:
        return None
    return _redigit(match[0], ":", _digits(scrubber, raw))


def _split_by(separator: str) -> Handler:
    return lambda scrubber, match: _redigit(
        match[0], separator, _digits(scrubber, match[0].replace(separator, "").lower()))


def _guid(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    if len(set(match[3])) == 1:
        return match[0]
    return match[1] + (match[2] or "") + _redigit(match[3], "", _digits(scrubber, match[3].lower()))


def _second_is_digits(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + _redigit(match[2], "", _digits(scrubber, match[2].lower()))


def _bare(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    raw, prefix = match[2].lower(), match[1] or ""
    if len(set(raw)) == 1:
        return None
    before = match.string[max(0, match.start() - 40): match.start()]
    known = raw in scrubber.names.digits
    if len(raw) >= 32 or known or forms.WORLDWIDE.search(before):
        return prefix + _redigit(match[2], "", _digits(scrubber, raw))
    address = (raw.startswith(("0000", "ffff")) or "[Hardware Error]" in match.string
               or match.string[match.end(): match.end() + 1] == "-"
               or forms.ADDRESSED.search(before) is not None)
    return (prefix + _redigit(match[2], "", _digits(scrubber, raw)) if prefix and len(raw) == 16
            and not address else None)


def _ipv6(scrubber: Scrubber, match: re.Match[str]) -> str | None:
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
    made = scrubber.replacements.ipv6(full)
    return (ipaddress.IPv6Address(made).exploded if full == text.lower() else made) + rest


def _ipv4(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    text = match[1]
    if any(int(part) > 255 or (len(part) > 1 and part[0] == "0") for part in text.split(".")):
        return None
    if text.startswith(("0.", "127.", "255.")):      # the first are versions, or the address 0.0.0.0
        return text
    before, after = (match.string[max(0, match.start() - 24): match.start()],
                     match.string[match.end(): match.end() + 20])
    reached = forms.REACHED.match(after) is not None
    if forms.VERSION.search(before) and not reached:
        return text
    if forms.MAYBE_VERSION.search(before) or forms.MAYBE_RELEASE.match(after):
        public = ipaddress.IPv4Address(text).is_global
        if (not reached
            and (public or (forms.SPEAKS_OF_CODE.match(after) and not forms.TOWARDS.search(before)))):
            return text
    return scrubber.replacements.ipv4(text)


def _dashed(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    address = match[2].replace("-", ".")
    return match[1] + scrubber.replacements.ipv4(address).replace(".", "-") if is_ip(address) else None


def _mail(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    if forms.UNIT.search(match[0]) or match[2].lower() in ORDINARY:
        return None
    host = match[2].rstrip(".-")
    if host.replace(".", "").isdigit() or forms.NO_NAME.match(host):
        return None
    scrubber.replacements.count("login", f"{match[1]}@{host}".lower())
    return f"{scrubber.user(match[1])}@{_full_name(scrubber, host)}{match[2][len(host):]}"


def _instance(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    """Whoever made an instance of a templated unit has named it; terminals, numbers and devices stay."""
    instance = match[2]
    if (match[1] in forms.DEVICE_TEMPLATES or forms.DEVICES.fullmatch(instance)
        or any(ord(c) >= forms.PLACE for c in instance)):
        return None
    return match[1] + paths.pieces(scrubber, instance) + match[3]


def _full_name(scrubber: Scrubber, name: str) -> str:
    low = name.lower()
    if low in scrubber.names.kinds:
        return scrubber.word(low)
    if low.count(".") == 1:
        return scrubber.named("domain name", low)
    return scrubber.host(name)


def _home(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + scrubber.user(match[2]) + paths.scrubbed(scrubber, match[3])


def _user_phrase(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    """A name that is too short to be looked for elsewhere is replaced where a user stands."""
    made, end = "", match.start()
    for at in range(1, (match.re.groups or 0) + 1):
        name = match[at]
        if name.lower() not in scrubber.names.kinds and name not in forms.BRIEF:
            made += match.string[end: match.start(at)] + scrubber.user(name)
            end = match.end(at)
    return made + match.string[end: match.end()] if made and not forms.UNIT.search(match[0]) else None


def _certificate(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    """Words that authorities' certificates share stay; the rest tells who built the kernel."""
    def term(word: re.Match[str]) -> str:
        if forms.KEY_ID.fullmatch(word[0]):
            return _redigit(word[0], "",
                            scrubber.replacements.hexadecimal("key fingerprint", word[0].lower()))
        low = word[0].lower()
        if low in scrubber.names.kinds:
            return scrubber.word(low)
        return (word[0] if low.strip(".-") in AUTHORITIES or low.isdigit()
                else scrubber.replacements.like("certificate", word[0]))

    return match[1] + forms.TERM.sub(term, match[2])


def _node_desc(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + forms.TERM.sub(lambda word: word[0] if forms.DESCRIBED.fullmatch(word[0])
                                     else scrubber.host(word[0]), match[2])


def _identified(kind: str) -> Handler:
    """The first group stays, and the second is hexadecimal."""
    return lambda scrubber, match: match[1] + _redigit(
        match[2], "", scrubber.replacements.hexadecimal(kind, match[2].lower()))


def _mount_unit(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    return paths.pieces(scrubber, match[1]) + match[2]


def _file_path(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    path = match[0]
    if (forms.SYSTEM_TREES.match(path) and not is_volume(path)) or forms.DRIVE_PLACE.fullmatch(path):
        return None
    return "/".join(part if part.lower() in ORDINARY else paths.pieces(scrubber, part)
                    for part in path.split("/"))


def _fqdn(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    low = match[1].lower()
    if is_public(low):
        return match[1]
    return _full_name(scrubber, match[1])


def _named_by(kind: str) -> Handler:
    """The first group stays, and each word of the second gives way, whatever it is; what stands between
    stays."""

    def handle(scrubber: Scrubber, match: re.Match[str]) -> str | None:
        value = match[2]
        if any(ord(c) >= forms.PLACE for c in value) or value.lower() in _SETTINGS or is_ip(value):
            return None
        return match[1] + (scrubber.word(value) if value.lower() in scrubber.names.kinds
                           else scrubber.replacements.like(kind, value))

    return handle


# Values of such names that are settings of everyone.
_SETTINGS = frozenset(
    ["true", "false", "yes", "no", "on", "off", "none", "null", "auto", "default", "enabled", "disabled"])


def _secret(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    """The value of a password is replaced also where it is a word that everyone uses, such as admin."""
    common = match[2].strip("\"'").lower() in ORDINARY and forms.PASSWORD_NAME.search(match[1]) is not None
    return (_SECRET if common else _HEADED_SECRET)(scrubber, match)


def _login(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    """Each option of a command that logs in, however short or common its value is."""
    begin = max(0, match.start() - forms.LOGIN_REACH)
    logs_in = forms.LOGS_IN.search(match.string, begin, match.start()) is not None
    return _SECRET(scrubber, match) if logs_in else None


def _domain_user(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    return scrubber.replacements.like("domain name", match[1]) + match[2] + scrubber.user(match[3])


def _kube(scrubber: Scrubber, match: re.Match[str]) -> str | None:
    return _OBJECT(scrubber, match) if forms.KUBE.search(match.string) else None


_OBJECT, _SECRET = _named_by("name of an object"), _named_by("secret")
_HEADED_SECRET = _headed("secret")
TABLE: Table = (
    (forms.OPTION, _SECRET), (forms.LOGIN, _login), (forms.PASSWORD_OPTION, _SECRET), (forms.PAIR, _SECRET),
    (forms.BUCKET, _named_by("bucket")), (forms.SETENV, _SECRET),
    *((pattern, _user_phrase) for pattern in forms.USERS),
    (forms.COMMAND_LINE, _command_line), (forms.KEEP, _keep), (forms.FINGERPRINT, _fingerprint),
    (forms.USERINFO, _userinfo), (forms.AUTHORIZATION, _headed("secret")), (forms.LINK_HEADER, _link_header),
    (forms.SECRET, _secret), (forms.UUID, _uuid), (forms.HOMES, _home),
    (forms.DOCKER_ID, _like("identifier")), (forms.PAIRS, _pairs), (forms.IPV6, _ipv6), (forms.GUID, _guid),
    (forms.PPIN, _identified("serial number")), (forms.GROUPS, _groups), (forms.ARRAY, _split_by(":")),
    (forms.CLOUD, _identified("cloud id")), (forms.VOLUME, _identified("cloud id")),
    (forms.OCID, _like("cloud id")), (forms.INTERFACE, _identified("interface id")),
    (forms.AUDIT_HEX, _identified("hexadecimal id")), (forms.CERTIFICATE, _certificate),
    (forms.NODE_DESC, _node_desc), (forms.CISCO, _split_by(".")), (forms.IPV4, _ipv4),
    (forms.DASHED, _dashed), (forms.LABEL, _label), (forms.SERIAL, _headed("serial number")),
    (forms.SERIAL_CAPITALS, _headed("serial number")), (forms.SERIAL_LETTERS, _headed("serial number")),
    (forms.ENX, _second_is_digits), (forms.CONTAINER, _identified("container id")), (forms.BARE, _bare),
    (forms.TOKEN, _like("secret")), (forms.SSID, _headed("SSID")),
    (forms.DISK_ID, _headed("serial number")), (forms.INSTANCE, _instance),
    (forms.DISTINGUISHED, _named_by("directory name")), (forms.DOMAIN_USER, _domain_user),
    (forms.OBJECT, _OBJECT), (forms.KUBE_NAMES, _kube),
    (forms.MAIL, _mail), *((pattern, _fqdn) for pattern in forms.FQDNS),
)
# After the learned words, which in a path are known best.
LATE: Table = ((forms.MOUNT_UNIT, _mount_unit), (forms.FILE_PATH, _file_path))
