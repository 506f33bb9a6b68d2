"""Reads inventories that other programs keep, as data, into what a muster inventory says."""
