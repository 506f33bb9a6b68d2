"""The faults that an accusation can name: a word each, and what it means to whoever reads the page."""

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
    WRONG_DATA: "a result was not what arithmetic says",
    SLOW: "slower than its equals, or than the floor",
    SLOW_STORAGE: "a mount is slower there than the floor",
    WRONG_STORAGE: "what was read from a mount is not what was written",
    SLOW_COMPUTE: "its own work takes longer, and the others wait for it",
    SLOW_LINK: "what it sends or receives takes longer",
    JITTER: "some iterations take far longer than most",
    HUNG: "its process lives and does not go on",
    STOPPED: "its process is stopped, or does not answer at all",
    DEAD: "its process ended",
    LATE: "it came long after the others",
    ABSENT: "it never came",
    LOST: "its node went away",
    RAISED: "it failed with an error of its own",
    COUNTED: "its hardware counted more errors than are allowed",
}
