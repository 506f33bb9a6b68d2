"""Talks to machines' controllers (BMCs). Entry points: `connect.controller` gives the `base.Controller` of a
node, `compare.compare` what differs from its SKU, and `may.why_not` why a machine must not be turned off."""
