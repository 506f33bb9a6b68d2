"""Talks to the controllers that sit beside machines (BMCs): power, boot, BIOS, media, hardware, firmware, event log and sensors."""
