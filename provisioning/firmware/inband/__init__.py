"""Firmware by the tools of a machine's own operating system, fwupd and mlxfwmanager: `read.read_tools` asks
what runs, and `update.band_entry` brings one machine to one version."""
