"""Virtual media against sushy-tools' emulator: in, armed, and out after the phone-home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.model import Bmc, Node, Secret, SecretFrom
from provisioning.bmc import pins
from provisioning.bmc.base import BmcError, BmcErrorReason, BootTarget, Media
from provisioning.bmc.connect import controller
from provisioning.bmc.redfish.media import cd_drive
from provisioning.osinstall.base import OsBackend, OsError, OsState
from provisioning.osinstall.pxe import phonehome
from provisioning.osinstall.pxe.options import MediaOptions
from provisioning.osinstall.virtualmedia import VirtualMediaBackend, virtual_media_backend
from tests.provisioning.osinstall.pxe.pxesite import Place, home, mac, options, seed_path, serving
from tests.testbed.bmcs import Bed, Machine, Wrong, rack, require_rack

PASSWORD = "calvin-0penSesame"
NAMES = ("gpu001", "gpu002", "gpu003")


class Site:
    """A rack, the images that its controllers fetch, and the back end."""

    def __init__(self, folder: Path, bed: Bed, address: str) -> None:
        self.bed = bed
        self.place = Place(folder / "state",
                           options(server=address, media=MediaOptions(f"{address}/files/{{node}}.iso")))
        pins.write(folder / "state", bed.fingerprints, {})
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o600)
        self.backend: VirtualMediaBackend = virtual_media_backend(self.place.options, folder / "state",
                                                                  self.place.clock)
        self.folder = folder

    def node(self, name: str = "gpu001") -> Node:
        bmc = Bmc(self.bed.address(name), self.bed.user, self.bed.port,
                  secret=Secret(SecretFrom.FILE, (str(self.folder / "password"),)))
        return Node(name, boot_mac=(mac(int(name[-1])),), bmc=bmc)

    def media(self, name: str = "gpu001") -> Media:
        found = controller(self.node(name), folder=self.folder / "state", seconds=10)
        try:
            return cd_drive(found.media())
        finally:
            found.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    require_rack()
    (tmp_path / "files").mkdir()
    for name in (*NAMES, "other"):
        (tmp_path / f"files/{name}.iso").write_bytes(b"CD001" * 1000)
    images = Place(tmp_path / "images", options(files=tmp_path / "files"))
    machines = [Machine("gpu001"), Machine("gpu002"), Machine("gpu003", wrong=Wrong.NO_ONE)]
    with serving(images) as address, rack(tmp_path / "rack", machines, password=PASSWORD) as bed:
        yield Site(tmp_path, bed, address)


def test_a_machine_is_installed_from_its_drive_and_the_drive_is_empty_then(site: Site) -> None:
    backend: OsBackend = site.backend
    node = site.node()
    assert (backend.name, backend.target, backend.drives_power) == ("virtual-media", BootTarget.CD, False)
    assert backend.state(node).state is OsState.PLANNED
    assert "gpu001.iso into Cd" in backend.changes(node)[0] and not site.media().inserted
    backend.install(node)
    held = site.media()
    assert (held.inserted and held.image.endswith("/files/gpu001.iso")
            and backend.state(node).state is OsState.INSTALLING)
    backend.install(node)
    record = site.place.record()
    assert record.number == 1
    for name in ("user-data", "written"):
        assert site.place.ask(seed_path(record, name)).status == 200
    body = home(record)
    assert site.place.done(body, phonehome.signed(record.token, body)).status == 200
    assert backend.state(node).state is OsState.INSTALLED and site.media().inserted
    for _ in range(2):
        site.backend.finish(node)
        assert not site.media().inserted
    assert backend.state(node).state is OsState.INSTALLED


def test_an_image_that_went_out_by_itself_is_put_in_again(site: Site) -> None:
    node = site.node()
    site.backend.install(node)
    found = controller(node, folder=site.folder / "state", seconds=10)
    found.eject("Cd")
    found.close()
    seen = site.backend.state(node)
    assert seen.state is OsState.PLANNED and "does not hold its image" in seen.message
    site.backend.install(node)
    assert site.backend.state(node).state is OsState.INSTALLING and site.place.record().number == 1


def test_killed_between_image_and_arming_the_next_one_goes_on(site: Site) -> None:
    node = site.node()
    found = controller(node, folder=site.folder / "state", seconds=10)
    found.insert("Cd", site.backend.media.image.replace("{node}", node.name))
    found.close()
    assert site.backend.state(node).state is OsState.PLANNED
    site.backend.install(node)
    assert site.backend.state(node).state is OsState.INSTALLING


def test_another_image_in_the_drive_is_left_there_and_nothing_is_armed(site: Site) -> None:
    node = site.node()
    found = controller(node, folder=site.folder / "state", seconds=10)
    found.insert("Cd", site.backend.media.image.replace("{node}", "other"))
    found.close()
    for act in (site.backend.changes, site.backend.install):
        with pytest.raises(OsError, match=r"another image in it.*muster bmc media gpu001 eject"):
            act(node)
    site.backend.finish(node)
    assert (site.media().image.endswith("other.iso")
            and site.place.backend.state(node).state is OsState.PLANNED)


def test_a_controller_that_is_away_is_unknown_and_nothing_is_armed(site: Site) -> None:
    node = site.node("gpu003")
    with pytest.raises(OsError, match="its controller: unreachable"):
        site.backend.install(node)
    assert site.backend.state(node).state is OsState.PLANNED
    site.place.backend.install(node)
    seen = site.backend.state(node)
    assert seen.state is OsState.UNKNOWN and "unreachable" in seen.message and PASSWORD not in seen.message


def test_without_a_controller_or_an_image_it_says_what_to_add(site: Site) -> None:
    with pytest.raises(OsError, match="names no controller"):
        site.backend.install(Node("gpu001", boot_mac=(mac(1),)))
    with pytest.raises(OsError, match="no media section"):
        virtual_media_backend(options(), site.folder / "state")


@pytest.mark.parametrize(("kinds", "named", "found"), [
    ((("Floppy",), ("CD", "DVD")), None, "drive1"), ((("USBStick",), ("DVD",)), None, "drive1"),
    ((("CD",), ("CD",)), None, "drive0"), ((("Floppy",), ("CD",)), "drive0", "drive0"),
])
def test_the_drive_is_the_first_that_takes_a_cd_or_the_named_one(kinds: tuple[tuple[str, ...], ...],
                                                                 named: str | None, found: str) -> None:
    drives = [Media(f"drive{at}", one, "", False) for at, one in enumerate(kinds)]
    assert cd_drive(drives, named).name == found


@pytest.mark.parametrize(("kinds", "named"), [((("USBStick",),), None), ((), None), ((("CD",),), "other")])
def test_a_controller_without_such_a_drive_says_which_it_has(kinds: tuple[tuple[str, ...], ...],
                                                             named: str | None) -> None:
    with pytest.raises(BmcError) as caught:
        cd_drive([Media(f"drive{at}", one, "", False) for at, one in enumerate(kinds)], named)
    assert caught.value.wrong is BmcErrorReason.UNSUPPORTED
