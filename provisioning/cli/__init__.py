"""The commands that change machines or start the demo, a module for each or for a part of one: parse, call,
print."""
