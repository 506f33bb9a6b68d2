"""Changes, made by sushy's resources over our own connection: power, boot override, BIOS settings, virtual
media.

sushy (OpenStack Ironic's library) and not DMTF's `redfish`: what its resources know of how makers take
changes was learned on hardware that we do not have (ETags that are weak, wrong or missing; iLO's and
Supermicro's virtual media; UsbCd; boot settings in a resource of their own), while DMTF's is a plain HTTP
client with `verify=False` that sends a POST up to eleven times and follows redirects. sushy's own connector
is left out: it sends every request, a reset too, up to three times when the connection drops, and tries a
password that was refused a second time. Facts are read without sushy, field by field: its resources raise as
a whole for one that is missing.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from inventory.text import clean
from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.base import BmcError, BmcErrorReason, BootTarget, PowerAction
from provisioning.bmc.redfish.match import patched
from provisioning.bmc.redfish.pending import PendingTasks
from provisioning.bmc.redfish.session import Session
from provisioning.bmc.redfish.state import TARGETS
from provisioning.bmc.redfish.task import followed
from provisioning.bmc.redfish.vendors import Maker

MISSING = "Redfish changes need sushy: pip install 'cluster-muster[redfish]'"
_BUTTON = "PushPowerButton"
_POWER_ACTIONS = {
    PowerAction.ON: ("On", "ForceOn", _BUTTON), PowerAction.OFF: ("ForceOff",),
    PowerAction.SHUTDOWN: ("GracefulShutdown",)}
Settings = Mapping[str, str | int | bool]


class _Response:
    """An answer as sushy reads one."""

    def __init__(self, answer: HttpAnswer) -> None:
        self.status_code = answer.status
        self.headers = _Headers(answer.headers)
        self.content = answer.body

    def json(self) -> Any:
        """The document; raises ValueError."""
        try:
            return json.loads(self.content)
        except RecursionError:
            raise ValueError("nested too deep") from None


class _Headers(dict[str, str]):
    """Headers by name in any case."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key.lower(), default)


def _sushy() -> Any:
    """The library, silent: it logs whole requests."""
    try:
        for name in ("connector", "exceptions", "resources.manager.virtual_media", "resources.system.bios",
                     "resources.system.system"):
            importlib.import_module(f"sushy.{name}")
        sushy = importlib.import_module("sushy")
    except ImportError:
        raise BmcError(BmcErrorReason.UNSUPPORTED, MISSING) from None
    for name in ("sushy", "urllib3", "requests"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False
    return sushy


def _connector(session: Session, sushy: Any, maker: Maker, follow: Callable[[HttpAnswer], str]) -> Any:
    """What sushy's resources send their requests through: each once. Only an answer that nothing was done
    lets them try otherwise. What was accepted is followed to its end."""

    class Connector(sushy.connector.Connector):  # type: ignore[misc]
        def __init__(self) -> None:
            self.made = False       # something was accepted, or may have been
            self.said = ""

        def _op(
            self, method: str, path: str = "", data: Any = None, headers: Any = None, **_: Any,
        ) -> _Response:
            if method == "GET":
                return _Response(session.got(path))
            more = {name: value for name, value in (headers or {}).items() if value is not None}
            answer = (patched(session, path, data, maker, more) if method == "PATCH"
                      else session.change(method, path, data, more))
            sushy.exceptions.raise_for_response(method, path, _Response(answer))
            self.said = follow(answer) or self.said     # raises where it was not done after all
            self.made = True
            return _Response(answer)

        def close(self) -> None:
            """The connection is the session's."""

    return Connector()


@contextmanager
def _errors(connector: Any, sushy: Any) -> Iterator[None]:
    """Turns what sushy raises, or stumbles over in a foreign answer, into BmcError."""
    try:
        yield
    except BmcError as problem:
        if connector.made and not problem.done:
            problem.done = None
        raise
    except sushy.exceptions.HTTPError as problem:
        status = problem.status_code or 0
        wrong = BmcErrorReason.UNSUPPORTED if status in (
            404, 405, 501) else BmcErrorReason.BUSY if status == 429 else BmcErrorReason.REFUSED
        raise BmcError(wrong, f"{status}: {clean(problem.detail or problem.code, 200)}",
                       None if connector.made else False) from None
    except (sushy.exceptions.MissingActionError, sushy.exceptions.MissingAttributeError,
            sushy.exceptions.InvalidParameterValueError) as problem:
        raise BmcError(BmcErrorReason.UNSUPPORTED, clean(problem, 200)) from None
    except Exception as problem:  # noqa: BLE001  (its parsers may raise anything)
        raise BmcError(BmcErrorReason.BROKEN, f"its answer cannot be read ({type(problem).__name__})",
                       None if connector.made else False) from None


class Changes:
    """Changes of the machine at `path`; each gives what the service said. `tasks` keeps what takes long."""

    def __init__(self, session: Session, path: str, maker: Maker, tasks: PendingTasks) -> None:
        self._session = session
        self._path = path
        self._maker = maker
        self._tasks = tasks
        self._sushy = _sushy()

    def set_power(self, set_power: PowerAction, *, push: bool) -> str:
        """Power on or off, by the first word for it that the machine takes; its button for `push` alone, as
        that may turn it off."""
        def act(system: Any) -> None:
            taken = {one.value for one in system.get_allowed_reset_system_values()}
            value = next(
                (one for one in _POWER_ACTIONS[set_power] if one in taken and (push or one != _BUTTON)), None)
            if value is None and set_power is PowerAction.ON and _BUTTON in taken:
                raise BmcError(BmcErrorReason.BUSY,
                               "it has only a button to push, which is not pushed unless it says that the "
                               "machine is off")
            if value is None:
                raise BmcError(
                    BmcErrorReason.UNSUPPORTED,
                    f"it cannot be turned {set_power.value}; it takes {clean(', '.join(sorted(taken)), 120)}")
            system.reset_system(self._sushy.ResetType(value))
        return self._system(f"power {set_power.value}", act)

    def set_boot(self, target: BootTarget, once: bool) -> str:
        """Sets the override, or takes it away."""
        def act(system: Any) -> None:
            enabled = "Disabled" if target is BootTarget.NONE else "Once" if once else "Continuous"
            wanted = TARGETS[target]
            allowed = list(system.boot.allowed_values or ()) if system.boot else []
            name = next((one for one in wanted if one in allowed), wanted[0])
            enums = self._sushy.resources.system.constants
            system.set_system_boot_options(
                target=enums.BootSource(name), enabled=enums.BootSourceOverrideEnabled(enabled))
        return self._system(f"boot {target.value}", act)

    def set_bios(self, path: str, settings: Settings) -> str:
        """Writes settings for the next reset."""
        connector = self._connected("BIOS settings", at_reset=True)
        with _errors(connector, self._sushy):
            bios = self._sushy.resources.system.bios.Bios(connector, path)
            apply = self._sushy.resources.constants.ApplyTime.ON_RESET if self._maker.apply and self._delays(
                bios) else None
            bios.set_attributes(dict(settings), apply_time=apply)
        return str(connector.said)

    @staticmethod
    def _delays(bios: Any) -> bool:
        times = bios.supported_apply_times
        return not times or any(getattr(one, "value", "") == "OnReset" for one in times)

    def insert(self, path: str, image: str) -> str:
        """Puts an image into the virtual drive at `path`."""
        return self._drive(path, "media insert", lambda drive: drive.insert_media(image))

    def eject(self, path: str) -> str:
        """Takes out what is in the virtual drive at `path`."""
        return self._drive(path, "media eject", lambda drive: drive.eject_media())

    def _connected(self, what: str, *, at_reset: bool = False) -> Any:
        return _connector(self._session, self._sushy, self._maker, lambda answer: followed(
            self._session, answer, what, self._tasks, at_reset=at_reset))

    def _system(self, what: str, act: Callable[[Any], None]) -> str:
        connector = self._connected(what)
        with _errors(connector, self._sushy):
            act(self._sushy.resources.system.system.System(connector, self._path))
        return str(connector.said)

    def _drive(self, path: str, what: str, act: Callable[[Any], None]) -> str:
        connector = self._connected(what)
        with _errors(connector, self._sushy):
            act(self._sushy.resources.manager.virtual_media.VirtualMedia(connector, path))
        return str(connector.said)
