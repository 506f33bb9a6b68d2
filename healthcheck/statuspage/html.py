"""The document as one HTML file without external parts. Jinja2 escapes every text; the script reads
the nodes as JSON, and writes texts as texts only."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader

from healthcheck.statuspage.changes import HOURS
from healthcheck.statuspage.trends import DAYS
from inventory.times import ago, minute

# What a script could end, or a browser take for a line's end.
_RISKY = ("<", ">", "&", "\u2028", "\u2029")
# From so many nodes on the table without JavaScript has one short finding of each: a page has 3 MB for 4,096.
_LARGE = 400
_OWNERS = {"user": "job's user", "operator": "operators", "network": "network team",
           "datacentre": "data centre", "vendor": "vendor"}


class HtmlPage(NamedTuple):
    """The file's bytes, and the Content-Security-Policy that admits its own style and script and nothing
    else."""

    data: bytes
    policy: str


def page(document: dict[str, Any]) -> HtmlPage:
    """The document as a page."""
    style, script = _part("page.css"), _part("page.js")
    policy = (f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
              "img-src data:; base-uri 'none'; form-action 'none'")
    made = document["made"]
    picture = (document["burnin"] or {}).get("picture", "")
    shown = {key: document[key] for key in ("made", "nodes", "findings")}
    text = _template().render(
        page=document, style=style, script=script, policy=policy, owners=_OWNERS, hours=HOURS,
        picture=base64.b64encode(picture.encode("utf-8", "replace")).decode(),
        data=_json(shown | {"days": DAYS}),
        few=len(document["nodes"]) > _LARGE,
        ago=lambda at: ago(max(0.0, made - at)) if at else "never", utc=minute)
    return HtmlPage(text.encode("utf-8", "replace"), policy)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for risky in _RISKY:
        text = text.replace(risky, f"\\u{ord(risky):04x}")
    return text


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _part(name: str) -> str:
    return (resources.files("healthcheck.statuspage") / "template" / name).read_text(encoding="utf-8")


@cache
def _template() -> Any:
    there = Environment(loader=PackageLoader("healthcheck.statuspage", "template"), autoescape=True,
                        trim_blocks=True, lstrip_blocks=True)
    return there.get_template("page.html")
