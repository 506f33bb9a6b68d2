"""Readers of what fabric tools print, one module a tool: text in, a `SubnetReading` out.

All of them are pure and bounded, and take the text for foreign: names are cleaned, a line that is not
understood is counted and named, and an output that ends early is a partial one.
"""
