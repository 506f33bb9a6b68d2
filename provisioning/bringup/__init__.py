"""Takes machines from power-off to service through stated steps, many at once, resumable at any point."""
