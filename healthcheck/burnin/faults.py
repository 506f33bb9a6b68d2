"""The faults that an accusation can name, a word each, and what each means."""

from __future__ import annotations

WRONG_DATA = "wrong data"
SLOW = "slow"
SLOW_STORAGE = "slow storage"
WRONG_STORAGE = "wrong data from storage"
SLOW_COMPUTE = "slow compute"
SLOW_LINK = "slow link"
JITTER = "jitter"
HUNG = "hung"
STOPPED = "stopped"
DEAD = "dead"
LATE = "late"
ABSENT = "absent"
LOST = "lost"
RAISED = "raised"
COUNTED = "counted errors"

MEANING = {
    WRONG_DATA: "a result differs from the exact one",
    SLOW: "slower than its equals, or than the floor",
    SLOW_STORAGE: "a mount is slower than its floor",
    WRONG_STORAGE: "data read from a mount differs from what was written",
    SLOW_COMPUTE: "its own work takes longer, and the others wait for it",
    SLOW_LINK: "its transfers take longer",
    JITTER: "some iterations take far longer than most",
    HUNG: "its process is alive but makes no progress",
    STOPPED: "its process is stopped or does not respond",
    DEAD: "its process ended",
    LATE: "it arrived long after the others",
    ABSENT: "it never joined",
    LOST: "its node disconnected",
    RAISED: "it failed with an error of its own",
    COUNTED: "its hardware counted more errors than allowed",
}
