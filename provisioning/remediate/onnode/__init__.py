"""What runs on a node when a step is taken there: one program of the standard library. Python 3.8."""
