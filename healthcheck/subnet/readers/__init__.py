"""Readers of what fabric tools print, one module a tool: text in, a `SubnetReading` out. Pure and bounded:
names are cleaned, what is not understood is counted and named, an output that ends early is a partial one."""
