"""The program that runs on a node: captures what the probe set asks for and prints one checksummed reply.

It is not imported there: `collector.joined` makes one text of these modules; the loader (`collector.loader`)
executes it and calls `main`. Python 3.8, standard library only, and few imports, because it runs beside a
training job and its start is most of its cost.

One process that never blocks supervises children that may block: one reader for files, mounts and the clock,
at most two commands, one NVML reader, and if the inventory says so one root-owned helper
(`healthcheck.collector.onnode.helper`) for all that needs root. A child writes to a memory file: no one has
to drain it, and its content outlives the child. The end of standard input, a signal or the end of the run's
time kills them all. No f-strings: `ast.unparse` rewrites this text, and Python 3.8 cannot read all of its
quotes in them.

The modules share one scope on the node: top-level names are unique, and their imports rename nothing.
"""
