"""Base configuration: the little that muster needs of a machine, and what is a hazard if absent; all else is
for the site's own tools.

Entry points: `desired.desired` reads the desired state, `send.look` and `send.make` compare nodes with it
and make it so; `onnode` runs there.
"""
