"""What machines and dnsmasq read: golden files, the real dnsmasq, and values within their quotes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inventory.entry import mac_address
from inventory.model import Node
from provisioning.osinstall.base import OsError
from provisioning.osinstall.pxe import dnsmasq
from provisioning.osinstall.pxe.machines import is_host_name, machine
from provisioning.osinstall.pxe.options import DhcpMode, Loaders, PxeOptions
from provisioning.osinstall.pxe.render import files
from provisioning.osinstall.pxe.templates import Templates
from tests.provisioning.osinstall.pxe.autoinstall import validate
from tests.provisioning.osinstall.pxe.pxesite import IMAGES, dhcp, mac, node, options
from tests.testbed.require import require

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "pxe"
# Of the agent and its unit, which are files of their own, only that they are there.
LONG = "firstboot"


def rendered(given: PxeOptions, count: int = 1) -> dict[str, str]:
    return dict(files(given, [machine(node(at), given) for at in range(1, count + 1)],
                      folder=Path("/etc/muster/pxe"),
                      muster="/usr/bin/muster", listen="10.1.0.1:9850", more=""))


@pytest.mark.parametrize("image", IMAGES)
def test_what_a_machine_fetches_is_as_kept(image: str) -> None:
    texts = rendered(options(image=image))
    for name, text in texts.items():
        if name.startswith("machines/") and not name.endswith(LONG):
            kept(f"{image}/{name.rpartition('/')[2]}", text)


@pytest.mark.parametrize("mode", DhcpMode)
def test_dnsmasqs_configuration_is_as_kept_and_dnsmasq_takes_it(mode: DhcpMode, tmp_path: Path) -> None:
    require(shutil.which("dnsmasq"), "no dnsmasq on this machine: apt-get install -y dnsmasq-base")
    text = rendered(options(dhcp=dhcp(mode)), 2)["dnsmasq.conf"]
    kept(f"dnsmasq-{mode.value}.conf", text)
    done = syntax_check(text, tmp_path)
    assert done.returncode == 0, done.stderr
    assert syntax_check(text.replace("port=0", "no-such-option"), tmp_path).returncode != 0


def syntax_check(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "dnsmasq.conf").write_text(text)
    return subprocess.run(["dnsmasq", "--test", f"--conf-file={folder}/dnsmasq.conf"], capture_output=True,
                          text=True, check=False)


def test_a_fleet_of_a_thousand_is_one_configuration(tmp_path: Path) -> None:
    require(shutil.which("dnsmasq"), "no dnsmasq on this machine: apt-get install -y dnsmasq-base")
    text = dnsmasq.configuration(options(), [machine(node(at), options()) for at in range(1000)])
    assert text.count("dhcp-host=") == 1000 and syntax_check(text, tmp_path).returncode == 0


def test_firmware_without_an_ipxe_of_its_own_is_not_answered() -> None:
    given = options(dhcp=dhcp(DhcpMode.FULL, loaders=Loaders(bios="", x64="ipxe.efi")))
    text = rendered(given)["dnsmasq.conf"]
    assert "client-arch,7" in text and "client-arch,0" not in text and "client-arch,11" not in text


def test_an_autoinstall_is_one_by_its_rules_and_names_the_machine() -> None:
    for changed in (options(), options(images={"ubuntu": IMAGES["ubuntu"]})):
        document = yaml.safe_load(rendered(changed)["machines/gpu001/user-data"])
        validate(document)
        assert document["autoinstall"]["user-data"]["hostname"] == "gpu001"


def test_a_preseed_is_one_to_debconf(tmp_path: Path) -> None:
    require(shutil.which("debconf-set-selections"), "no debconf-set-selections: it is Debian's")
    (tmp_path / "preseed").write_text(rendered(options(image="debian"))["machines/gpu001/preseed.cfg"])
    done = subprocess.run(["debconf-set-selections", "--checkonly", str(tmp_path / "preseed")],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("image", IMAGES)
def test_the_first_boot_script_is_one_to_a_shell(image: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(rendered(options(image=image))["machines/gpu001/firstboot"])
    assert subprocess.run(["sh", "-n", str(tmp_path / "script")], check=False).returncode == 0


def test_no_rendered_file_has_a_secret() -> None:
    texts = rendered(options(), 3)
    assert "TOKEN-OF-THE-INSTALLATION" in texts["machines/gpu001/firstboot"]
    assert "TICKET-OF-THE-INSTALLATION" in texts["machines/gpu001/boot.ipxe"]


def kept(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("MUSTER_GOLDEN") == "update":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{name} differs; is it meant? MUSTER_GOLDEN=update writes it again"


# ---- what a site's own template may do

def template(folder: Path, text: str, **values: object) -> str:
    (folder / "x.j2").write_text(text)
    return Templates([folder]).render(["x"], values)


def test_a_sites_template_wins_by_name_and_by_image(tmp_path: Path) -> None:
    given = options(templates=(*options().templates, tmp_path))
    (tmp_path / "ubuntu").mkdir()
    (tmp_path / "ubuntu/meta-data.j2").write_text("instance-id: {{ node|yaml }}\n")
    assert rendered(given)["machines/gpu001/meta-data"] == 'instance-id: "gpu001"\n'
    assert "autoinstall" in rendered(given)["machines/gpu001/user-data"]


@pytest.mark.parametrize(("text", "said"), [
    ("{{ node }}", "without a quoting filter"),
    ("{{ node|upper }}", "No filter named"),
    ("{{ missing|yaml }}", "'missing' is undefined"),
    ("{{ node.missing|sh }}", "no attribute"),
    ("{{ node.__class__.__mro__|yaml }}", "unsafe"),
    ("{{ node.upper()|sh }}", "not safely callable"),
    ("{{ ('a' * 100000000)|sh }}", "do not calculate"),
    ("{% for a in many %}{% for b in many %}{% for c in many %}{{ node|sh }}{% endfor %}{% endfor %}{% "
     "endfor %}", "renders over"),
    ("a\n{% if %}", "x.j2:2"),
    ("{% include '../secret' %}", "no template"),
    ("{% import 'os' as os %}", "no template"),
    ("{{ cycler|yaml }}", "undefined"),
    ("{{ range(9)|yaml }}", "not safely callable"),
])
def test_a_template_runs_nothing_and_every_value_is_quoted(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(OsError) as caught:
        template(tmp_path, text, node="gpu001", many=list(range(200)))
    line = str(caught.value)
    assert said in line and "\n" not in line and len(line) < 700, line


_TEXT = st.text(max_size=40)
_LINE = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp", "Cf", "Co", "Cn")),
                max_size=40).filter(str.isprintable)


@given(_TEXT.filter(lambda text: not any(0xD800 <= ord(char) < 0xE000 or ord(char) > 0xFFFF
                                         for char in text)))
def test_any_text_comes_through_yaml_as_it_was(text: str) -> None:
    from provisioning.osinstall.pxe.templates import _FILTERS

    quoted = _FILTERS["yaml"]([text, {"k": text}])
    assert ("\n" not in quoted and yaml.safe_load(f"a: {quoted}") == {"a": [text, {"k": text}]}
            and json.loads(quoted) == [text, {"k": text}])


@given(_LINE)
def test_any_line_comes_through_a_shell_as_it_was(text: str) -> None:
    from provisioning.osinstall.pxe.templates import _FILTERS

    assert shlex.split(f"printf {_FILTERS['sh'](text)} end") == ["printf", text, "end"]


@given(st.text(max_size=40))
def test_a_preseed_and_ipxe_take_one_line_and_plain_words_or_nothing(text: str) -> None:
    from jinja2 import TemplateError

    from provisioning.osinstall.pxe.templates import _FILTERS

    for name in ("preseed", "ipxe"):
        try:
            found = _FILTERS[name](text)
        except TemplateError:
            continue
        assert found == text and len(text.splitlines()) <= 1 and text.isprintable()
        assert name != "ipxe" or (text and not set(text) & set(" ${}|\\\"'`#") and "&&" not in text)


@given(st.text(max_size=70))
def test_a_name_that_is_no_host_name_is_refused_and_one_that_is_can_stand_anywhere(name: str) -> None:
    if is_host_name(name):
        assert (len(name) <= 64
                and set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"))
        assert name[0] not in "-." and ".." not in name and "/" not in name
    else:
        with pytest.raises(OsError):
            machine(Node(name, boot_mac=(mac(1),)), options())


@pytest.mark.parametrize("name", ["../../etc", "a/b", "a b", "a\nb", "-rf", "a" * 65, "a_b", "", ".", "é",
                                  "a..b", "$(id)", "a;b"])
def test_hostile_names_are_no_host_names(name: str) -> None:
    assert not is_host_name(name)


@given(st.text(max_size=24))
def test_any_text_is_a_hardware_address_in_one_form_or_none(text: str) -> None:
    found = mac_address(text)
    assert found is None or (len(found) == 17 and found == found.lower() and mac_address(found) == found)


@pytest.mark.parametrize(("text", "found"), [
    ("52-54-00-AB-CD-EF", "52:54:00:ab:cd:ef"), ("52:54:00:ab:cd:ef", "52:54:00:ab:cd:ef"),
    ("5254.00ab.cdef", None),
    ("01:00:5e:00:00:01", None), ("ff:ff:ff:ff:ff:ff", None), ("00:00:00:00:00:00", None),
    ("52:54:00:ab:cd", None),
    ("52:54:00:ab:cd:ef:01", None), ("５2:54:00:ab:cd:ef", None),
])
def test_hardware_addresses_are_those_of_one_port(text: str, found: str | None) -> None:
    assert mac_address(text) == found


def test_a_node_without_what_is_needed_says_what_to_add() -> None:
    with pytest.raises(OsError, match="add there: boot_mac:"):
        machine(Node("gpu001"), options())
    with pytest.raises(OsError, match=r"no image 'none'.*debian, own, ubuntu"):
        machine(node(), options(image="none"))
    assert machine(node(), options(by_node={"gpu001": "debian"})).image is IMAGES["debian"]
