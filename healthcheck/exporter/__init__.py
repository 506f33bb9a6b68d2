"""Serves the fleet's state to Prometheus: values in, text out;
only `server`, `sweeper` and `processed` touch the machine."""
