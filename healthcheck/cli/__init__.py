"""The root command and the health-check commands."""
