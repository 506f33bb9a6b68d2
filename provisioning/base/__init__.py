"""Base configuration: the little that muster needs of a machine, or is a hazard if absent. Entry points:
`desired.desired` reads the desired state, `send.look` and `send.make` compare nodes and make it so."""
