"""Has nodes trust the head's keys and keep its snapshot, over the usual transport: `push.push`."""
