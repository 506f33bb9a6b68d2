"""The commands that change machines or start the demo: parse, call, print."""
