"""A hundred secrets and names planted in every capture of a node: none is left, in no spelling.

The secrets' forms follow, value by value, the rules of public scanners: gitleaks config/gitleaks.toml
(b58d3f1) and detect-secrets detect_secrets/plugins (5e14193). Names have the forms in which sites write them.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import urllib.parse
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording, to_json
from healthcheck.scrub import scrub
from healthcheck.scrub.allowed import Allowance
from healthcheck.scrub.replacements import StandIns
from healthcheck.scrub.vocabulary import vocabulary
from inventory.model import Node
from tests.healthcheck import machine
from tests.tries import tries

KEY = b"k" * 32
_SETS = {"a": string.ascii_lowercase, "A": string.ascii_uppercase, "d": string.digits,
         "h": "0123456789abcdef",
         "H": "0123456789ABCDEF", "w": string.ascii_letters + string.digits,
         "l": string.ascii_lowercase + string.digits,
         "U": string.ascii_uppercase + string.digits, "b": string.ascii_letters + string.digits + "+/",
         "t": "234567" + string.ascii_uppercase}

# The value's form: {w36} is 36 letters and digits, {h32} hexadecimal digits, and so on by _SETS.
GITLEAKS = [
    "A3-{U6}-{U11}-{U5}-{U5}-{U5}", "ops_eyJ{b250}", "AGE-SECRET-KEY-1{t58}", "LTAI{l20}",
    "sk-ant-api03-{w93}AA", "AKCp{w69}",
    "ATLASSIAN_TOKEN={l24}", "AKIA{t16}", "ASIA{t16}", "{w3}8Q~{w34}", "v1.0-{h24}-{h146}", "dapi{h32}-2",
    "dop_v1_{h64}",
    "discord_key: {h64}", "dp.pt.{l43}", "dt0c01.{l24}.{l64}", "EAAM{l100}", "AIza{w35}", "github_pat_{w82}",
    "ghp_{w36}", "gho_{w36}",
    "glpat-{w20}", "glsa_{w32}_{h8}", "{l14}.atlasv1.{l64}", "HRKU-AA{w58}", "hf_{a34}", "ico-{w32}",
    "ey{w30}.ey{w40}.{w43}", "lin_api_{l40}", "{h32}-us12", "key-{h32}", "NRAK-{l27}", "npm_{l36}",
    "sk-{w20}T3BlbkFJ{w20}", "pplx-{w48}",
    "pscale_tkn_{w43}", "PMAK-{h24}-{h34}", "pnu_{w36}", "pul-{h40}", "pypi-AgEIcHlwaS5vcmc{w60}",
    "rdme_{l70}", "rubygems_{h48}",
    "tk-us-{w48}", "SG.{w22}.{w43}", "sntrys_eyJpYXQiO{w40}LCJyZWdpb25fdXJs{w40}_{w43}", "shpat_{h32}",
    "xoxb-{d12}-{d12}-{w24}",
    "https://hooks.slack.com/services/T{U8}/B{U8}/{w24}", "{l8}-{l4}-{l4}-{l4}-{l12}", "sq0atp-{w22}",
    "sk_live_{w24}", "su{w12}",
    "{d9}:A{w34}", "SK{h32}", "hvs.{w95}", "s.{l24}", "AQVN{w36}",
    "https://{a6}.webhook.office.com/webhookb2/{h8}-{h4}-{h4}-{h4}-{h12}/IncomingWebhook/{l32}/"
    "{h8}-{h4}-{h4}-{h4}-{h12}",
]
DETECT_SECRETS = [
    "AccountKey={b86}==", "https://{a6}:{w12}@{a8}.{a6}", "{d9}:{w35}", "softlayer_api_key={l64}",
    "https://api.softlayer.com/soap/v3/{l64}",
    "cos_hmac_secret_access_key={h48}", "sq0csp-{w43}", "M{w23}.{w6}.{w27}",
    "//{a6}.{a4}/:_authToken=npm_{w30}", "AP5{w12}",
]
# Names and keys as the sites of clusters write them, and the places where they stand.
SITES = [
    ("{a4}{w9}Q", "mytool --token {}"), ("{a4}{w6}!Q", "mysql -h db -p{}"),
    ("{w5}{a5}", "sshpass -p {} ssh x"), ("{a6}:{w7}", "curl -u {} u"),
    ("{a6}{d3}:{w9}", "login {}"), ("{a5}{w8}", "systemd.setenv=WANDB={}"),
    ("{w8}zq", "{{\"env\": [\"WANDB_API_KEY={}\"]}}"),
    ("b83fd2{h6}", "mac {}"), ("b8 3f d2 {h2} {h2} e5", "lladdr {} on"), ("b8_3f_d2_{h2}_{h2}_e5", "if_{}"),
    ("B83F.D21C.{H4}", "hw {}"),
    ("8:3f:d2:{h1}:a:e5", "arp {}"), ("{a7}", "session of CORPNET\\{} opened"),
    ("uid={a7},ou={a6},dc={a5},dc={a4}", "bind {}"),
    ("CN={a7} {a8},OU={a6}", "subject {}"), ("{a7}@{A9}.{A4}", "principal {}"),
    ("host/{a5}-{a5}@{A8}.{A4}", "keytab {}"),
    ("{a7}adm", "SEL: user {} logged in"), ("{a6}-{a5}-0", "pod={}"), ("{a6}-{a6}", "namespace: {}"),
    ("{a5}-worker-{a4}", "kubelet: node/{} not ready"),
    ("s3://{a6}-{a5}/{a5}", "cp {}"), ("{a6}/{a5}:{a4}", "image {} pulled"), ("{a7}.corp", "dial {}"),
    ("{a5}.{a6}.intra", "host {}"),
    ("{a7} {a7}", "# ask {} about this"), ("{a6}-{d2}.{a6}.lan", "server {}"),
    ("+1 5{d2} 8{d2} 5{d3}", "call {}"), ("5{d2}-8{d2}-5{d3}", "pager {}"),
    ("4{d3} {d4} {d4} {d4}", "card {}"), ("9{d12}", "asset {}"), ("{d3}-{d2}-{d4}", "ssn {}"),
    ("C02{U8}Z", "chassis {}"), ("{A7}{d4}", "S/N: {}"),
    ("{h8}-{h4}-4{h3}-9{h3}-{h12}", "tenant {}"), ("{h16}a7", "key {}"), ("{a6}@{a6}.{a3}", "mail {}"),
    ("{a6}-{a6}-{a5}-{a5}", "phrase {}"),
]
# Where on a line a secret can stand.
PLACES = ("{}", "k={}", "k: {}", "say '{}'", "say \"{}\"", "https://h.example/{}/x", "/opt/{}/run",
          "run --flag {} end", "[ 12.345678] x: {}", "<{}>")


def made(form: str, draw: random.Random) -> str:
    return re.sub(r"\{(\w)(\d+)\}",
                  lambda found: "".join(draw.choice(_SETS[found[1]]) for _ in range(int(found[2]))), form)


def planted() -> list[tuple[str, str]]:
    """(value, line) for every form, each in one of the places."""
    draw = random.Random(25)
    forms = [(form, PLACES[at % len(PLACES)]) for at, form in enumerate(GITLEAKS + DETECT_SECRETS)] + SITES
    return [(value, place.format(value)) for form, place in forms for value in [made(form, draw)]]


def spellings(value: str) -> set[str]:
    """The value, its telling parts, and the ways to write both; small letters."""
    parts = {value, *(part for part in re.split(r"[\s/:@=,\"]+", value)
                      if len(part) >= 6
                      and not set(re.findall(r"[a-z0-9]+", part.lower())) <= vocabulary() | _GIVEN)}
    raw = {spelling for part in parts for spelling in (
        part, urllib.parse.quote(part, safe=""), base64.b64encode(part.encode()).decode().rstrip("="),
        re.sub(r"[^0-9A-Za-z]", "", part))}
    return {each.lower() for each in raw if len(each) >= 6}


# Parts of forms that are the vendor's and no one's secret, and of places.
_GIVEN = frozenset(["webhook", "office", "com", "webhookb2", "incomingwebhook", "hooks", "slack", "softlayer",
                    "api", "cos", "hmac", "accountkey", "authtoken", "wandb", "worker", "secret", "access",
                    "key", "soap", "v3", "services", "discord", "atlassian", "token"])


def pem(draw: random.Random) -> list[str]:
    """The lines of a private key."""
    return ["-----BEGIN OPENSSH PRIVATE KEY-----", *(made("{b64}", draw) for _ in range(5)),
            made("{b30}==", draw),
            "-----END OPENSSH PRIVATE KEY-----"]


def with_planted(lines: list[str]) -> Recording:
    """A healthy node's recording, every capture of which holds all lines besides what it held."""
    text = "".join(f"{line}\n" for line in lines)
    document = json.dumps({"note": lines, "env": {line: line for line in lines}}) + "\n"
    log = "".join(f"4,{90000 + at},{at},-;{line}\n" for at, line in enumerate(lines))
    look = machine.recording("qx7")
    captures: dict[str, Capture] = {}
    for name, capture in look.captures.items():
        files = dict(capture.files)
        for path in list(files)[:1]:
            more = log if path == "/dev/kmsg" else text
            files[path] = FileCapture(files[path].outcome, files[path].text + more)
        files["/etc/" + lines[0].replace("/", "_")] = FileCapture(Outcome.DONE, text)
        held = capture.text + (document if capture.text.lstrip().startswith("{") else text)
        captures[name] = replace(capture, text=held, stderr=capture.stderr + text, note=text, files=files)
    return replace(look, captures=captures)


def test_of_a_hundred_secrets_and_names_planted_in_every_capture_none_is_left() -> None:
    found = planted()
    assert len(found) >= 100
    key = pem(random.Random(7))
    wrapped = [(value, [value[: len(value) // 2], value[len(value) // 2:]])
               for value, _ in found if len(value) > 30]
    lines = [line for _, line in found] + key + ["\\n".join(key)] + [part for _,
                                                                     parts in wrapped for part in parts]
    out = json.dumps(to_json(scrub(with_planted(lines), Node(name="qx7"), key=KEY).recording),
                     ensure_ascii=False).lower()
    bare = re.sub(r"[^0-9a-z]", "", out)
    left = [(value, each) for value in [value for value, _ in found] + key[1:-1] for each in spellings(value)
            if each in out or (len(each) >= 12 and re.sub(r"[^0-9a-z]", "", each) in bare)]
    assert left == [], [(a, b, out[max(0, out.find(b) - 60): out.find(b) + 60]) for a, b in left[:40]]


@pytest.mark.parametrize(("line", "secrets"), [
    ("ipmitool -I lanplus -H 10.7.0.9 -U root -P 123456 sel list", ["10.7.0.9", "root", "123456"]),
    ("cmd=['ipmitool', '-H', '10.7.0.9', '-U', 'ADMIN', '-P', 'ADMIN']", ["10.7.0.9", "ADMIN"]),
    ("snmpwalk -v3 -u admin -A admin -X 4711 10.7.0.9", ["admin", "4711", "10.7.0.9"]),
    ("racadm -r 10.7.0.9 -u root -p admin getsel", ["10.7.0.9", "root", "admin"]),
    ("useradd -p 123456 -u 1001 x", ["123456"]),
    ("mount -t cifs -o username=x,password=admin,vers=3", ["admin"]),
    ("export DB_PASSWORD=admin IPMI_PASS='root' rootpw=4711", ["admin", "root", "4711"]),
])
def test_a_password_that_everyone_uses_is_replaced_where_its_place_says_what_it_is(
    line: str, secrets: list[str],
) -> None:
    look = scrub(with_planted(["first", line]), Node(name="qx7"), key=KEY).recording
    texts = [text for capture in look.captures.values() for text in capture.text.split("\n")]
    shown = [text for text in texts if re.search(r"-v3|-P|-p|pw=|vers=", text)]
    words = re.findall(r"[\w.]+", "\n".join(shown))
    assert words and [secret for secret in secrets if secret in words] == []


@pytest.mark.parametrize("line", ["pwr: 663W", "pwm1=255", "pwm1_enable: 2"])
def test_a_reading_of_power_or_of_a_fan_is_no_password(line: str) -> None:
    look = scrub(with_planted(["first", line]), Node(name="qx7"), key=KEY).recording
    assert any(line in capture.text for capture in look.captures.values())


def allowance() -> Allowance:
    return Allowance(StandIns(KEY, ""))


WORDS = st.text(string.ascii_letters, min_size=4, max_size=20).filter(
    lambda word: word.lower() not in vocabulary() and word[1:].lower() not in vocabulary())


@settings(deadline=None, max_examples=tries(150))
@given(WORDS, st.sampled_from(PLACES), st.sampled_from(["log", "table", "text"]))
def test_a_word_that_is_not_in_the_vocabulary_stays_nowhere(word: str, place: str, kind: str) -> None:
    out = allowance().text(place.format(word), kind)
    assert word.lower() not in re.findall(r"[a-z0-9]+", out.lower())
    for text in (json.dumps({word: [place.format(word)]}), f"a\\n{word}", f"DOM\\{word}"):
        assert word.lower() not in re.findall(r"[a-z0-9]+", allowance().text(text, kind).lower())


@settings(deadline=None, max_examples=tries(150))
@given(st.text(max_size=80), st.sampled_from(["log", "table", "text"]))
def test_what_was_replaced_once_stays_as_it_is(text: str, kind: str) -> None:
    work = allowance()
    once = work.text(text, kind)
    assert work.text(once, kind) == once


@given(WORDS)
def test_the_same_word_has_the_same_stand_in_in_every_case(word: str) -> None:
    work = allowance()
    assert work.text(word).lower() == work.text(f"x={word.upper()}")[2:].lower() == work.text(word.lower())


@pytest.mark.parametrize(("number", "stays"), [
    ("MemTotal:       2113409204 kB", True), ("rx_bytes: 123456789012", True), ("15551234567", False),
    ("serial 1652923004817", False),
    ("contact 15551234567 today", False), ("pin=1234567890", False), ("mac 001122334455 up", False),
    ("4096 4096 1280 1280 1280 264176150 264176147 264176147 4102 255", True), ("4096 4096 1280 1280", False),
    ("123456", True),
])
def test_a_long_number_stays_only_where_words_name_it_as_a_measure(number: str, stays: bool) -> None:
    assert (allowance().text(number) == number) is stays


def test_what_stayed_is_counted_by_kind_and_value() -> None:
    work = allowance()
    work.text("GPU 0000:1b:00.0: link down, link x8, eth0", "log")
    assert work.kept["words of the vocabulary"]["link"] == 2
    assert work.kept["names of parts"] == {"eth0": 1}
