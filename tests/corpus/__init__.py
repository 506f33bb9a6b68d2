"""What muster makes of recorded fleets, kernel logs and job logs, kept whole: a change of the code that changes none of it has kept its behaviour."""
