"""rules/bringup.yaml, what a site lays over it, and each mistake as one line with its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.config.valuetypes import ValueType
from healthcheck.model.outcome import Owner
from healthcheck.ruleset.ruleset import load_ruleset
from inventory.errors import ConfigError, RulesError
from inventory.located import load_yaml
from inventory.model import Secret, SecretFrom
from provisioning.bmc.base import BootTarget
from provisioning.bringup.engine.model import ORDER
from provisioning.bringup.policy.load import load
from provisioning.bringup.policy.model import STEPS, FirmwarePayload, Machines, MissingAttribute
from provisioning.osinstall.base import OsError
from provisioning.osinstall.evidence import MarkerFile, WantedSigns
from provisioning.osinstall.registry import OsTools
from provisioning.osinstall.section import LINE, OsSection
from tests.provisioning.bringup.controllers import NODE, Scripted
from tests.provisioning.bringup.proofs import DEAD, always
from tests.tries import tries

POLICY = load([packaged()])


def site(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "bringup.yaml").write_text(text)
    return folder


def test_the_packaged_policy_has_every_step_in_its_order_and_leaves_out_none_but_restarts() -> None:
    assert tuple(POLICY.steps) == ORDER == tuple(STEPS) and POLICY.without == {"soak"}
    assert not POLICY.soak.kinds and not POLICY.consoles.capture


def test_a_site_that_asks_for_restarts_has_the_step_and_may_leave_it_out_all_the_same(tmp_path: Path) -> None:
    some = load([packaged(), site(tmp_path, "soak: {cold: 2, warm: 1, off_seconds: 45}")])
    assert some.without == frozenset() and some.soak.kinds == ("cold", "cold", "warm")
    assert (some.soak.off_s, some.soak.boot_s) == (45, 1800)
    without = load([packaged(), tmp_path / "rules", _more(tmp_path, "without: [soak]")])
    assert without.without == {"soak"}


def _more(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "more.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("text", "wrong"), [
    ("soak: {cold: -1}", "soak: cold"), ("soak: {off_seconds: 0}", "soak: off_seconds"),
    ("soak: {hot: 1}", "hot"),
    ("console: {capture: maybe}", "console: capture"), ("console: {at_once: 0}", "console: at_once"),
])
def test_a_wrong_figure_of_restarts_or_consoles_is_one_line_with_its_place(tmp_path: Path, text: str,
                                                                           wrong: str) -> None:
    with pytest.raises(RulesError) as raised:
        load([packaged(), site(tmp_path, text)])
    assert wrong in str(raised.value) and "bringup.yaml:1:" in str(raised.value)
    assert POLICY.steps["bmc"].owner is Owner.DATACENTRE and POLICY.steps["bmc"].seconds == 900
    assert {name for name, step in POLICY.steps.items() if step.together} == {
        "checks", "kernel", "leased", "burnin", "certificate", "service"}


def test_no_bios_is_written_before_a_site_says_so_and_every_wish_names_its_source(tmp_path: Path) -> None:
    assert not POLICY.bios
    on = load([packaged(),
               site(tmp_path,
                    "bios: [{id: dell-large-bars, enabled: true}, {id: dell-full-speed, enabled: true}]")])
    assert len(on.bios) == 2 and all(desired.source for desired in on.bios)
    assert on.settings("Dell Inc.", "hgx-h100") == {"MmioAbove4Gb": ("Enabled", MissingAttribute.LEAVE),
                                                    "SysProfile": ("PerfOptimized", MissingAttribute.LEAVE)}
    assert on.settings(
        "Supermicro", None) == on.settings("NVIDIA", "dgx-h100") == on.settings("HPE", None) == {}
    assert not POLICY.versions(
        "Dell Inc.", None) and POLICY.boot is BootTarget.NONE and POLICY.delivery is None


def test_a_site_changes_what_it_names_and_keeps_the_rest(tmp_path: Path) -> None:
    folder = site(tmp_path, """
        steps: {bmc: {minutes: 2}, os: {owner: vendor, domain_at_once: 3}}
        without: [bios, boot]
        stop: {share: 0.5}
        power: {bios_minutes: 1.5}
        boot: {target: pxe}
        parts: {may_be_empty: []}
        delivery: {file: delivered.csv}
        burnin: {length: quick, stages: "node, rail"}
        bios:
        - {id: dell-large-bars, enabled: true, settings: {SriovGlobalEnable: Enabled}, absent: trouble}
        - {id: ours, vendor: HPE, skus: [hgx-h100], source: ours,
           settings: {Sriov: Enabled, Count: 3, Quiet: true}}
        firmware:
        - {id: bmc, component: bmc, vendor: "Dell*", at_least: "7.20.30"}
        - {id: bios, component: bios, exactly: "2.1.0", owner: vendor}
        base: {clock_seconds: 9}
        ssh: {host_keys: consoles}
        """)
    policy = load([packaged(), folder])
    assert (policy.steps["bmc"].seconds == 120 and policy.steps["bmc"].owner is Owner.DATACENTRE
            and policy.steps["bmc"].in_parallel == 64)
    assert policy.steps["os"].owner is Owner.VENDOR and policy.steps["os"].domain_at_once == 3
    assert policy.without - {"soak"} == {
        "bios", "boot"} and policy.stop.share == 0.5 and policy.stop.least == POLICY.stop.least
    assert (policy.power.bios_s == 90 and policy.power.off_s == POLICY.power.off_s
            and policy.boot is BootTarget.PXE)
    assert policy.parts.may_be_empty == frozenset() and policy.parts.log_days == POLICY.parts.log_days
    assert policy.delivery == folder / "delivered.csv"
    assert policy.burnin.stages == "node,rail" and policy.burnin.length == "quick"
    assert policy.settings("Dell Inc.", None) == {
        "MmioAbove4Gb": ("Enabled", MissingAttribute.TROUBLE),
        "SriovGlobalEnable": ("Enabled", MissingAttribute.TROUBLE)}
    assert (policy.settings("HPE", "hgx-h100")["Count"] == (3, MissingAttribute.TROUBLE)
            and not policy.settings("HPE", "dgx-h100"))
    assert [desired.id for desired in policy.versions("Dell Inc.", None)] == ["bmc", "bios"]
    assert [desired.id for desired in policy.versions("HPE", None)] == [
        "bios"] and policy.firmware[1].owner is Owner.VENDOR
    assert policy.base == {**POLICY.base, "clock_seconds": 9}
    assert policy.host_keys == folder / "consoles" and POLICY.host_keys is None
    assert load_ruleset([packaged(), folder]).rules      # it is no file of rules


@pytest.mark.parametrize("key", ["snapshots", "looks"])      # the second in files of earlier versions
def test_how_many_snapshots_have_to_pass_is_laid_over_the_packages_number(tmp_path: Path, key: str) -> None:
    assert POLICY.checks.snapshots == 2
    assert load([packaged(),
                 site(tmp_path, f"checks: {{{key}: 5}}\n")]).checks == replace(POLICY.checks, snapshots=5)


def test_a_maker_is_found_by_a_glob_without_regard_to_case() -> None:
    assert Machines("dell*").has("DELL Inc.", None) and not Machines("Dell").has("Dell Inc.", None)
    assert Machines().has("", None) and not Machines(skus=("hgx-h100",)).has("", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [("[]", "bringup.yaml:1:1: expected a map of steps, without"),
     ("stesp: {}", "bringup.yaml:1:1: unknown key 'stesp'; did you mean 'steps'?"),
     ("steps: {bcm: {minutes: 1}}", "bringup.yaml:1:9: steps: unknown key 'bcm'; did you mean 'bmc'?"),
     ("steps: {bmc: 3}", "bringup.yaml:1:14: steps: bmc: expected a map, got 3"),
     ("steps: {bmc: {minuts: 1}}",
      "bringup.yaml:1:15: steps: bmc: unknown key 'minuts'; did you mean 'minutes'?"),
     ("steps: {bmc: {minutes: soon}}",
      "bringup.yaml:1:24: steps: bmc: minutes: expected a number from 0.01 to 20160, got 'soon'"),
     ("steps: {bmc: {minutes: true}}", "expected a number"),
     ("steps: {bmc: {owner: datacenter}}",
      "steps: bmc: owner: expected one of user, operator, network, datacentre, vendor, got 'datacenter'; did "
      "you mean 'datacentre'?"),
     ("steps: {bmc: {at_once: 0}}", "at_once: expected a whole number from 1 to 4096, got 0"),
     ("checks: {snapshots: 3, looks: 2}",
      "bringup.yaml:1:24: checks: looks is snapshots by its former name; write it once"),
     ("checks: {looks: 0}", "bringup.yaml:1:17: checks: looks: expected a whole number from 1 to 100, got 0"),
     ("checks: {snapshot: 3}",
      "bringup.yaml:1:10: checks: unknown key 'snapshot'; did you mean 'snapshots'?"),
     ("without: bmc", "bringup.yaml:1:10: without: expected a list of steps, got 'bmc'"),
     ("without: [service]", "bringup.yaml:1:11: without: expected one of bmc, credentials"),
     ("without: [bmc, biso]", "bringup.yaml:1:16: without: expected one of bmc, credentials"),
     ("stop: {share: 2}", "bringup.yaml:1:15: stop: share: expected a number from 0.01 to 1, got 2"),
     ("boot: {target: cd}", "bringup.yaml:1:16: boot: target: expected one of none, pxe, disk, got 'cd'"),
     ("parts: {may_be_empty: [dimms]}", "bringup.yaml:1:24: parts: may_be_empty: expected one of cpu"),
     ("parts: {may_be_empty: dimm}", "expected a list of kinds of parts"),
     ("burnin: {length: long}", "burnin: length: expected one of quick, standard, soak, got 'long'"),
     ("burnin: {stages: \"node,rial\"}", "burnin: stages: expected stages by commas"),
     ("bios: {}", "bringup.yaml:1:7: bios: expected a list, got a map"),
     ("bios: [{vendor: x}]", "id: expected a name, got nothing"),
     ("bios: [{id: a, vendor: x}]",
      "bringup.yaml:1:8: bios: a: settings is missing: expected a map of 1 to 200 attributes"),
     ("bios: [{id: a, settings: {A: b}}]", "bios: a: source is missing"),
     ("bios: [{id: a, settings: {}, source: s}]",
      "bios: a: settings: expected a map of 1 to 200 attributes, got a map"),
     ("bios: [{id: a, settings: {A: 1.5}, source: s}]",
      "bringup.yaml:1:30: bios: a: settings: A: expected text, a whole number, true or false"),
     ("bios: [{id: a, settings: {A: [x]}, source: s}]", "settings: A: expected text"),
     ("bios: [{id: a, settings: {A: x}, source: s, absent: ignore}]",
      "bios: a: absent: expected one of trouble, leave, got 'ignore'"),
     ("firmware: [{id: a, at_least: '1'}]", "firmware: a: component is missing"),
     ("firmware: [{id: a, component: bmc}]",
      "firmware: a: at_least is missing: expected either at_least or exactly"),
     ("firmware: [{id: a, component: bmc, at_least: '1', exactly: '2'}]",
      "expected either at_least or exactly"),
     ("firmware: [{id: a, component: bmc, at_least: 1}]",
      "firmware: a: at_least: expected a line of at most 200 characters, got 1"),
     ("firmware: [{id: a, component: bmc, exactly: '1'}, {id: a, component: bios, exactly: '1'}]",
      "id a is defined twice"), ("base: 3", "bringup.yaml:1:7: base: expected a map, got 3"),
     ("delivery: {file: 3}", "delivery: file: expected a line of at most 200 characters, or null, got 3"),
     ("os: none", "bringup.yaml:1:5: os: expected a map, got 'none'"),
     ("os: {by: mas}", "bringup.yaml:1:10: os: by: expected one of none, command, maas, pxe, virtual-media"),
     ("os: {by: comand}", "got 'comand'; did you mean 'command'?"),
     ("os: {by: maas, key: {file: k}}", "os: url is missing: expected a line"),
    ("os: {by: maas, url: 'https://maas/MAAS', key: secret}",
     "os: key: must not be written here; name its source"),
    ("os: {by: maas, url: 'https://maas/MAAS', key: {env: K}}",
     "os: maas: the API key comes from a file or a command"),
    ("os: {by: maas, url: 'https://maas/MAAS', key: {file: k}, osystem: ubuntu}",
     "os: maas: osystem needs distro_series"),
    ("boot: {target: pxe}\nos: {by: virtual-media}",
     "bringup.yaml:1:16: boot: target: pxe leads past os: by: virtual-media"),
    ("boot: {target: disk}\nos: {by: pxe}", "bringup.yaml:1:16: boot: target: disk leads past os: by: pxe"),
    ("os: {by: pxe, server: x}", "os: unknown key 'server'"),
    ("os: {by: none, argv: [x]}", "bringup.yaml:1:16: os: unknown key 'argv'"),
     ("os: {by: command}", "bringup.yaml:1:5: os: argv is missing: expected a program and its words"),
     ("os: {by: command, argv: /etc/muster/os}",
      "bringup.yaml:1:25: os: argv: expected a program and its words"),
     ("os: {by: command, argv: [x, 3]}", "bringup.yaml:1:29: os: argv: expected a line"),
     ("os: {by: command, argv: [x], seconds: 0}", "os: seconds: expected a number from 0.1 to 3600, got 0"),
     ("os: {marker: /etc/site-image}",
      "bringup.yaml:1:14: os: marker: expected a map of file and holds, got '/etc/site-image'"),
     ("os: {marker: {}}", "bringup.yaml:1:14: os: marker: file is missing: expected an absolute path"),
     ("os: {marker: {file: etc/x}}", "bringup.yaml:1:21: os: marker: file: expected an absolute path"),
     ("os: {marker: {file: /etc/../x}}", "expected an absolute path"),
     ("os: {marker: {file: /etc/x, hold: y}}", "os: marker: unknown key 'hold'; did you mean 'holds'?"),
     ("os: {image: 7}",
      "bringup.yaml:1:13: os: image: expected a line of at most 400 characters, or null, got 7")])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RulesError) as caught:
        load([packaged(), site(tmp_path, text)])
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_who_installs_is_others_until_a_site_names_a_program_and_its_signs_of_a_system(
        tmp_path: Path) -> None:
    assert (POLICY.os.by, POLICY.os.wanted.configured) == ("none", False)
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, text in ((first, "os: {by: command, argv: [/etc/muster/os, a], marker: {file: /etc/x}}"),
                         (second, "os: {image: r7}")):
        folder.mkdir()
        (folder / "bringup.yaml").write_text(text)
    policy = load([packaged(), first, second])
    assert policy.os.by == "command"
    assert policy.os.wanted == WantedSigns(MarkerFile("/etc/x"), "r7")
    backend = policy.os.make(OsTools(always(DEAD), Scripted(), tmp_path))
    assert backend.changes(NODE) == ("run: /etc/muster/os a install gx01",)
    # A file that names who installs says all of it.
    (second / "bringup.yaml").write_text("os: {by: none, image: r7}")
    policy = load([packaged(), first, second])
    assert (policy.os.by, policy.os.wanted) == ("none", WantedSigns(None, "r7"))
    backend = policy.os.make(OsTools(always(DEAD), Scripted(), tmp_path))
    assert (backend.state(NODE), backend.changes(NODE)) == (DEAD, ())
    with pytest.raises(OsError, match="others install here"):
        backend.install(NODE)


@pytest.mark.parametrize(("text", "secret"), [
    ("{file: key}", Secret(SecretFrom.FILE, ("{folder}/key",))),
    ("{file: /etc/key}", Secret(SecretFrom.FILE, ("/etc/key",))),
    ("{env: MAAS_KEY}", Secret(SecretFrom.ENV, ("MAAS_KEY",))),
    ("{command: [pass, show, maas]}", Secret(SecretFrom.COMMAND, ("pass", "show", "maas")))])
def test_a_back_end_reads_its_own_keys_and_secrets_as_bmc_does(tmp_path: Path, text: str,
                                                               secret: Secret) -> None:
    section = written(tmp_path, f"{{by: x, url: maas/path, key: {text}}}")
    assert section.secret("key") == replace(secret, words=tuple(
        word.replace("{folder}", str(tmp_path)) for word in secret.words))
    assert section.path("url") == tmp_path / "maas/path"
    assert section.read({"url": LINE,
                         "key": ValueType("anything", lambda given: given)})["url"] == "maas/path"


@pytest.mark.parametrize(("text", "said"), [
    ("hunter2", "must not be written here"), ("{}", "expected one of {file: PATH}"),
    ("{file: a, env: B}", "expected one of"),
    ("{env: a-b}", "env: expected the name of an environment variable"),
    ("{command: x}", "command: expected a program"),
    ("{value: hunter2}", "unknown key 'value'")])
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(tmp_path: Path, text: str,
                                                                  said: str) -> None:
    with pytest.raises(RulesError) as caught:
        written(tmp_path, f"{{by: x, key: {text}}}").secret("key")
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/os.yaml:1:")
    assert "hunter2" not in str(caught.value)


def written(folder: Path, text: str) -> OsSection:
    (folder / "os.yaml").write_text(text)
    return OsSection(load_yaml(folder / "os.yaml", error=RulesError))


def test_a_version_names_the_file_or_the_address_that_brings_it_with_its_digest(tmp_path: Path) -> None:
    folder = site(tmp_path, f"""
        firmware:
        - {{id: a, component: bios, exactly: "1", payload: {{file: fw/a.bin, sha256: {'AB' * 32}}}}}
        - {{id: b, component: psu, exactly: "1", payload: {{sha256: {'0' * 63}1, url: "http://head.example/b"}}}}
        - {{id: c, component: bmc, exactly: "1"}}
        """)
    found = {one.id: one.payload for one in load([packaged(), folder]).firmware}
    assert found == {"a": FirmwarePayload(folder / "fw/a.bin", None, "ab" * 32),
                     "b": FirmwarePayload(None, "http://head.example/b", "0" * 63 + "1"), "c": None}


@pytest.mark.parametrize("text", [
    "{file: a}", "{sha256: X}", "{file: a, sha256: abc}", "{file: a, url: b, sha256: X}", "a.bin",
    "{fiel: a, sha256: X}",
    '{url: "http://user:hunter2@head.example/b", sha256: X}', "{url: b.bin, sha256: X}",
    "{file: 3, sha256: X}"])
def test_a_payload_without_a_digest_or_with_a_password_is_refused(tmp_path: Path, text: str) -> None:
    given_ = text.replace("X", "0" * 63 + "1")
    with pytest.raises(RulesError) as caught:
        load([packaged(),
              site(tmp_path, f'firmware: [{{id: a, component: bios, exactly: "1", payload: {given_}}}]')])
    assert ("bringup.yaml:1:" in str(caught.value)
            and "firmware: a: payload: expected {file: PATH" in str(caught.value))
    assert "hunter2" not in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_missing_in_the_only_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"bringup.yaml:1:1: steps: bmc: owner is missing"):
        load([site(tmp_path, "run: {width: 1}")])
    with pytest.raises(RulesError, match=r"no rules folder holds a bringup.yaml: looked in .*nothing"):
        load([tmp_path / "nothing"])


_NAMES = st.sampled_from(
    ["steps", "without", "stop", "bios", "firmware", "base", "boot", "bmc", "id", "minutes", "settings",
     "a", "os", "by",
     "command", "argv", "marker", "file", "image"])
_PLAIN = st.none() | st.booleans() | st.integers(
    -3, 99) | st.floats(allow_nan=True) | st.text(max_size=8) | _NAMES
_ANY = st.recursive(
    _PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12)


@settings(max_examples=tries(150), deadline=None)
@given(st.dictionaries(_NAMES, _ANY, max_size=4))
def test_any_document_is_a_policy_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, object],
) -> None:
    import yaml

    folder = tmp_path_factory.mktemp("any")
    (folder / "bringup.yaml").write_text(yaml.safe_dump(document, allow_unicode=False))
    try:
        policy = load([packaged(), folder])
    except ConfigError as error:
        assert "\n" not in str(error)
    else:
        assert tuple(policy.steps) == ORDER
