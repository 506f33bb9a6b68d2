"""What machines write to their consoles while they boot and are installed, captured beside what is done to
them: `ConsoleCaptures` holds a capture for each machine, `tail` reads what was captured."""
