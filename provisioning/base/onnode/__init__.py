"""What runs on a node to look at its base configuration and make it so, and to say which machine it is: one program each. Python 3.8."""
