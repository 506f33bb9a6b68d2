"""Redfish services of our own, in the style of makers of whom no machine is to be had: documents by path, and
the ways in which each differs, every one with the source that it is known from."""
