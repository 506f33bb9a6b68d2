"""What runs on a node to check and apply its base configuration, and to report its identity: one program
each. Python 3.8."""
