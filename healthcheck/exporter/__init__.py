"""Serves Prometheus what is known of the fleet: values in, text out; only `server`, `sweeper` and `processed` touch the machine."""
