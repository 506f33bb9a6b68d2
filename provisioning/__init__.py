"""Changes machines and schedulers; today it holds the loopback demo fleet."""
