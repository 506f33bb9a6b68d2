"""Takes machines from power-off to service through steps, many at once, resumable anywhere. `engine` advances
them, `policy` says what is wanted, `steps` do the work on machines, `pages` show it."""
