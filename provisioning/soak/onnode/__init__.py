"""What runs on a node to say how its boot stands, and to restart it: one program. Python 3.8."""
