"""Virtual media against sushy-tools' emulator: in, armed, and out after the phone-home."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from inventory.model import Bmc, Node, Secret, SecretFrom
from provisioning.bmc import pins
from provisioning.bmc.base import BmcError, BmcErrorReason, BootTarget, Controller, Media
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

    def media(self) -> Media:
        with closing(self.controller()) as found:
            return cd_drive(found.media())

    def insert(self, image: str) -> None:
        with closing(self.controller()) as found:
            found.insert("Cd", self.backend.media.image.replace("{node}", image))

    def eject(self) -> None:
        with closing(self.controller()) as found:
            found.eject("Cd")

    def controller(self) -> Controller:
        return controller(self.node(), folder=self.folder / "state", seconds=10)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, str]]:
    """A rack, and where the images of its machines are."""
    require_rack()
    folder = tmp_path_factory.mktemp("served")
    (folder / "files").mkdir()
    for name in (*NAMES, "other"):
        (folder / f"files/{name}.iso").write_bytes(b"CD001" * 1000)
    images = Place(folder / "images", options(files=folder / "files"))
    machines = [Machine("gpu001"), Machine("gpu002"), Machine("gpu003", wrong=Wrong.NO_ONE)]
    with serving(images) as address, rack(folder / "rack", machines, password=PASSWORD) as bed:
        yield bed, address


@pytest.fixture
def site(tmp_path: Path, served: tuple[Bed, str]) -> Iterator[Site]:
    """With empty drives."""
    made = Site(tmp_path, *served)
    yield made
    if made.media().inserted:
        made.eject()


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
    site.eject()
    seen = site.backend.state(node)
    assert seen.state is OsState.PLANNED and "does not hold its image" in seen.message
    site.backend.install(node)
    assert site.backend.state(node).state is OsState.INSTALLING and site.place.record().number == 1


def test_killed_between_image_and_arming_the_next_one_goes_on(site: Site) -> None:
    node = site.node()
    site.insert(node.name)
    assert site.backend.state(node).state is OsState.PLANNED
    site.backend.install(node)
    assert site.backend.state(node).state is OsState.INSTALLING


def test_another_image_in_the_drive_is_left_there_and_nothing_is_armed(site: Site) -> None:
    node = site.node()
    site.insert("other")
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
