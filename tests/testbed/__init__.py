"""Real peers for the tests: sshd, FUSE, Docker, and the demo fleet."""
