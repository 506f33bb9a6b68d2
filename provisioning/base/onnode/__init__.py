"""On a node: its base configuration and identity, checked or applied, one program each. Python 3.8."""
