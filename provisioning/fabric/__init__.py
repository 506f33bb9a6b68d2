"""Ports of the fabric that are disabled and enabled again: `propose.proposals` says which and what is lost,
`disable.disable` does it, writes first, and believes only what is read back."""
