"""What a person does about each finding of a fabric: one sentence, the least first; and what each means."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from healthcheck.subnet.check.findings import FabricRule

_CABLE = "clean and reseat both ends of the cable, then change it, then try another port"
# As imperatives, to be read after where it is.
HANDS: Mapping[FabricRule, str] = MappingProxyType({
    FabricRule.MANAGER: "leave one subnet manager as master: look at the logs of those that are named",
    FabricRule.STANDBY: "start a second subnet manager with a lower priority",
    FabricRule.STRANGE_MANAGER: "stop the subnet manager there (systemctl disable --now opensm)",
    FabricRule.GUID: "ask the vendor: a GUID is one device's alone; take one of them off the fabric",
    FabricRule.NAME: "give each device a description of its own (rdma-ndd, or the switch's host name)",
    FabricRule.IDENTITY: "find out which machine it is in; correct the description, or the inventory",
    FabricRule.SWITCH: "look at the switch: power, management port, its log; then its uplinks",
    FabricRule.HOST: "look at the machine: power, console; then whether its adapters are there",
    FabricRule.ADAPTER: "look at the adapter's cable, and whether its port is InfiniBand",
    FabricRule.UPLINKS: "look at the uplinks that are down, and at the switches that they lead to",
    FabricRule.LINK: f"look at both ends: {_CABLE}",
    FabricRule.STATE: "look at the subnet manager's log: it has not brought the port up",
    FabricRule.SILENT: "look at the device at the other end: it is linked and does not answer",
    FabricRule.CABLE: "move the cable to where the plan has it: muster fabric diff lists the moves",
    FabricRule.WIDTH: _CABLE,
    FabricRule.SPEED: f"look at the speed that both ports allow; {_CABLE}",
    FabricRule.ERRORS: _CABLE,
    FabricRule.FLAPPING: _CABLE,
    FabricRule.DISCARDS: "look at the receiver beyond the port, and at what congests it",
    FabricRule.CONGESTION: "look at which jobs send there, and at the routes",
    FabricRule.TEMPERATURE: "look at the air before and behind it, and at the fans of its rack",
    FabricRule.OPTICS: "clean the connectors and the fibre, then change the transceiver",
    FabricRule.FAN: "change the fan",
    FabricRule.SUPPLY: "look at the power supply's feed, then change it",
    FabricRule.ROUTE: "have the subnet manager route anew, and look at its log",
    FabricRule.BALANCE: "look at the subnet manager's routing engine, and at uplinks that are down",
    FabricRule.LOT: "ask the vendor about the lot, with the list of what failed",
    FabricRule.SOURCE: "look at the tools' outputs: muster fabric check --save FOLDER",
})
