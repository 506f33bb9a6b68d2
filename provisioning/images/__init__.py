"""Container images by digest over a fleet, through the runtime that each node has: `wanted.load` says what is
wanted where, `send.look` and `send.pull` ask and have nodes pull, `page` shows both."""
