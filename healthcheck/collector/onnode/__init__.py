"""The program that runs on a node: captures what the probe set asks for and prints one bounded, checksummed answer.

It is not imported there: `collector.joined` makes one text of these modules, and the loader (`collector.program`) executes it and
calls `main`. Python 3.8, standard library only, and few imports, because it runs beside a training job and its start is most
of what it costs.

One process that never blocks looks after children that may: one reader for files, mounts and the clock, at most two commands,
one NVML reader, and where the inventory says so, one root-owned helper (`healthcheck.collector.onnode.helper`) for all that needs root.
A child writes to a memory file, so that nobody has to drain it and what it wrote outlives it. The end of standard input, a
signal or the end of our time kills them all. No f-strings: this text is rewritten by `ast.unparse`, whose quotes in them are
not always those that 3.8 can read.

The modules share one scope on the node: a top-level name belongs to one of them, and imports of our own rename nothing.
"""
