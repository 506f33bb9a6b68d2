"""Options of commands that ask UFM: where it is, who asks, and why its certificate is believed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from inventory.errors import UsageError

if TYPE_CHECKING:
    from healthcheck.sweep.ufmrest import UfmRest


@dataclass(frozen=True)
class UfmAsked:
    """What was typed; false where no UFM was named."""

    urls: tuple[str, ...] = ()
    auth: str | None = None
    tls: str | None = None

    def __bool__(self) -> bool:
        return bool(self.urls)

    def rests(self) -> tuple[UfmRest, ...]:
        """Each of them; reads the login, and asks nothing. Raises UsageError."""
        from healthcheck.sweep.ufmrest import UfmRest, login_of
        from healthcheck.sweep.ufmwire import place_of, trust_of

        places = dict.fromkeys(place_of(url) for url in self.urls)
        trust, login = trust_of(self.tls), login_of(self.auth)
        return tuple(UfmRest(place, trust, login) for place in places)


def ufm_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --ufm, --ufm-auth and --ufm-tls, which the command gets as `ufm`."""
    @functools.wraps(command)
    def run(*given: Any, ufm_urls: tuple[str, ...], ufm_auth: str | None, ufm_tls: str | None,
            **more: Any) -> Any:
        if not ufm_urls and (ufm_auth is not None or ufm_tls is not None):
            raise UsageError(f"{'--ufm-auth' if ufm_auth is not None else '--ufm-tls'} goes with --ufm URL")
        return command(*given, ufm=UfmAsked(ufm_urls, ufm_auth, ufm_tls), **more)

    for add in (
        click.option("--ufm-tls", "ufm_tls", metavar="TRUST",
                     help="Why its certificate is believed: a file of authorities, or its fingerprint, "
                     "sha256:HEX.  [the system's authorities]"),
        click.option("--ufm-auth", "ufm_auth", metavar="FILE",
                     help="A file with USER:PASSWORD or an access token of UFM.  [MUSTER_UFM_AUTH]"),
        click.option("--ufm", "ufm_urls", metavar="URL", multiple=True,
                     help="Ask UFM at https://HOST[:PORT]; repeatable, one for each subnet."),
    ):
        run = add(run)
    return run
