"""What an autoinstall file may hold, as far as ours goes: written from the autoinstall reference manual of
Ubuntu's installer (canonical-subiquity.readthedocs-hosted.com), which lists sections, their types, and that a
file without `identity` needs `user-data`."""

from __future__ import annotations

from typing import Any

import jsonschema

_COMMANDS = {"type": "array", "items": {"type": ["string", "array"], "items": {"type": "string"}}}
_SCHEMA: dict[str, Any] = {
    "type": "object", "required": ["autoinstall"], "additionalProperties": False,
    "properties": {"autoinstall": {
"type": "object", "additionalProperties": False, "required": ["version", "user-data"], "properties": {
"version": {"const": 1},
"storage": {"type": "object", "required": ["layout"], "properties": {"layout": {
"type": "object", "required": ["name"], "properties": {
"name": {"enum": ["lvm", "direct", "zfs", "hybrid"]},
"match": {"type": "object", "properties": {
"size": {"enum": ["largest", "smallest"]}, "path": {"type": "string"}}, "additionalProperties": False}}}}},
"ssh": {"type": "object", "additionalProperties": False, "properties": {
"install-server": {"type": "boolean"}, "allow-pw": {"type": "boolean"},
"authorized-keys": {"type": "array", "items": {"type": "string"}}}},
"packages": {"type": "array", "items": {"type": "string"}},
"user-data": {"type": "object", "required": ["hostname", "users"]},
"late-commands": _COMMANDS, "error-commands": _COMMANDS,
"shutdown": {"enum": ["reboot", "poweroff"]}}}}}


def validate(document: Any) -> None:
    """Raises jsonschema.ValidationError."""
    jsonschema.Draft202012Validator(_SCHEMA).validate(document)
