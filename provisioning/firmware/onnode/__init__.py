"""What runs on a node: a program that reads firmware with the tools there, and has one of them write it."""
