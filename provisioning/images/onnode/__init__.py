"""What runs on a node when its container images are looked at or pulled: one program. Python 3.8."""
