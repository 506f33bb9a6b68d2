"""Has nodes trust the head's keys and keep its snapshot, over the usual transport.

Entry point: `push.push`; `onnode` is what runs there.
"""
