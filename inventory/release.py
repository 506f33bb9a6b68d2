"""The release of muster. The package's version is taken from here (pyproject.toml): to ask which one is
installed takes a command 30 ms."""

VERSION = "0.1.0"
