"""The steps that bring an older store from one version of the schema to the next, up to `SCHEMA`.

A step that was released is never changed. What tables and columns mean stands in `healthcheck.store.schema`.
"""

from __future__ import annotations

_FIRST = (
    """CREATE TABLE sweep (
        id INTEGER PRIMARY KEY, started REAL NOT NULL, finished REAL NOT NULL, partial INTEGER NOT NULL,
        source TEXT NOT NULL,
        rules TEXT NOT NULL, profiles TEXT NOT NULL, nodes INTEGER NOT NULL, unreached INTEGER NOT NULL
    )""",
    "CREATE INDEX sweep_started ON sweep (started)",
    "CREATE TABLE node (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    # A node's states, one after the other.
    """CREATE TABLE spell (
        id INTEGER PRIMARY KEY, node INTEGER NOT NULL REFERENCES node, state TEXT NOT NULL,
        reason TEXT NOT NULL, stage TEXT,
        began REAL NOT NULL, seen REAL NOT NULL, ended REAL, sweeps INTEGER NOT NULL
    )""",
    "CREATE UNIQUE INDEX spell_open ON spell (node) WHERE ended IS NULL",
    "CREATE INDEX spell_node ON spell (node, began)",
    # One thing that is wrong, or cannot be measured, from when it was first seen to when a sweep showed it
    # gone.
    """CREATE TABLE problem (
        id INTEGER PRIMARY KEY, node INTEGER NOT NULL REFERENCES node, rule TEXT NOT NULL,
        subject TEXT NOT NULL,
        component INTEGER REFERENCES component, status TEXT NOT NULL, severity TEXT NOT NULL, origin TEXT,
        owner TEXT,
        observed TEXT NOT NULL, expected TEXT NOT NULL, reason TEXT NOT NULL, remedy TEXT NOT NULL,
        began REAL NOT NULL, seen REAL NOT NULL, ended REAL, sweeps INTEGER NOT NULL
    )""",
    "CREATE UNIQUE INDEX problem_open ON problem (node, rule, subject, status) WHERE ended IS NULL",
    "CREATE INDEX problem_node ON problem (node, began)",
    "CREATE INDEX problem_component ON problem (component) WHERE component IS NOT NULL",
    "CREATE INDEX problem_ended ON problem (ended) WHERE ended IS NOT NULL",
    # What is known by its own serial number, wherever it sits.
    "CREATE TABLE component (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, serial TEXT NOT NULL, UNIQUE "
    "(kind, serial))",
    """CREATE TABLE seat (
        id INTEGER PRIMARY KEY, component INTEGER NOT NULL REFERENCES component,
        node INTEGER NOT NULL REFERENCES node,
        slot TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL, ended REAL
    )""",
    "CREATE UNIQUE INDEX seat_open ON seat (node, slot) WHERE ended IS NULL",
    "CREATE INDEX seat_component ON seat (component)",
    # The newest value of a counter, and every one at which it had changed.
    """CREATE TABLE counter (
        node INTEGER NOT NULL REFERENCES node, slot TEXT NOT NULL, name TEXT NOT NULL, time REAL NOT NULL,
        value REAL NOT NULL,
        PRIMARY KEY (node, slot, name, time)
    ) WITHOUT ROWID""",
    # What muster did, and meant to do: a line is written before the action, and its outcome after it.
    """CREATE TABLE ledger (
        id INTEGER PRIMARY KEY, time REAL NOT NULL, who TEXT NOT NULL, action TEXT NOT NULL,
        node TEXT NOT NULL, why TEXT NOT NULL,
        evidence TEXT NOT NULL, outcome TEXT, finished REAL
    )""",
    "CREATE INDEX ledger_node ON ledger (node, time)",
    # Our cordons; the number is in the mark that the back end shows. `state`: meant, held, released or void.
    """CREATE TABLE cordon (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, backend TEXT NOT NULL, why TEXT NOT NULL,
        who TEXT NOT NULL, state TEXT NOT NULL,
        began REAL NOT NULL, ended REAL, line INTEGER NOT NULL REFERENCES ledger
    )""",
    "CREATE UNIQUE INDEX cordon_open ON cordon (node, backend) WHERE ended IS NULL",
)

# What triage needs: what the driver asked for, reboots, looks that may return a node, verdicts;
# and what people said of nodes.
_SECOND = (
    "ALTER TABLE problem ADD COLUMN repair TEXT",
    # A node's boots; `began` is the first sweep that met it.
    """CREATE TABLE boot (
        node INTEGER NOT NULL REFERENCES node, boot TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL,
        PRIMARY KEY (node, boot)
    ) WITHOUT ROWID""",
    # The newest looks at a node under each profile of the occasion; `against` is what kept it from being
    # healthy, as JSON.
    """CREATE TABLE look (
        node INTEGER NOT NULL REFERENCES node, profile TEXT NOT NULL, time REAL NOT NULL, state TEXT NOT NULL,
        against TEXT NOT NULL,
        PRIMARY KEY (node, profile, time)
    ) WITHOUT ROWID""",
    # What triage decided, from when to when; `evidence` is JSON.
    """CREATE TABLE verdict (
        id INTEGER PRIMARY KEY, node INTEGER NOT NULL REFERENCES node, fault TEXT NOT NULL,
        isolation TEXT NOT NULL, repair TEXT NOT NULL,
        owner TEXT NOT NULL, why TEXT NOT NULL, evidence TEXT NOT NULL, began REAL NOT NULL,
        seen REAL NOT NULL, ended REAL
    )""",
    "CREATE UNIQUE INDEX verdict_open ON verdict (node) WHERE ended IS NULL",
    "CREATE INDEX verdict_node ON verdict (node, began)",
    # One cause that is not of one node; `nodes` is JSON.
    """CREATE TABLE incident (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, cause TEXT NOT NULL, nodes TEXT NOT NULL,
        why TEXT NOT NULL, owner TEXT NOT NULL,
        began REAL NOT NULL, seen REAL NOT NULL, ended REAL
    )""",
    "CREATE UNIQUE INDEX incident_open ON incident (kind, cause) WHERE ended IS NULL",
    # The verdict in whose name triage made a cordon; NULL where a person made it, whom triage leaves it to.
    "ALTER TABLE cordon ADD COLUMN verdict INTEGER REFERENCES verdict",
    # The breaker, from when it opened to when it closed.
    "CREATE TABLE breaker (id INTEGER PRIMARY KEY, opened REAL NOT NULL, why TEXT NOT NULL, closed REAL, "
    "who TEXT, reason TEXT)",
    "CREATE UNIQUE INDEX breaker_open ON breaker ((closed IS NULL)) WHERE closed IS NULL",
    # What a person does not want to hear of until then; `nodes` is a JSON list, `rule` a glob.
    """CREATE TABLE silence (
        id INTEGER PRIMARY KEY, nodes TEXT NOT NULL, rule TEXT NOT NULL, why TEXT NOT NULL, who TEXT NOT NULL,
        began REAL NOT NULL,
        until REAL NOT NULL, ended REAL
    )""",
    "CREATE INDEX silence_until ON silence (until)",
    # What went to the vendor; `slot` is empty where it is the whole node.
    """CREATE TABLE rma (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, slot TEXT NOT NULL, kind TEXT NOT NULL,
        serial TEXT NOT NULL, why TEXT NOT NULL,
        who TEXT NOT NULL, reference TEXT NOT NULL, evidence TEXT NOT NULL, opened REAL NOT NULL,
        shipped REAL, returned REAL, outcome TEXT
    )""",
    "CREATE UNIQUE INDEX rma_open ON rma (node, slot) WHERE returned IS NULL",
    # Nodes that we hold for what is disruptive; `holder` is the process that does, as JSON.
    """CREATE TABLE lease (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, backend TEXT NOT NULL, name TEXT NOT NULL,
        nodes TEXT NOT NULL, why TEXT NOT NULL,
        who TEXT NOT NULL, holder TEXT NOT NULL, began REAL NOT NULL, until REAL NOT NULL, ended REAL,
        outcome TEXT,
        line INTEGER NOT NULL REFERENCES ledger
    )""",
    "CREATE INDEX lease_open ON lease (ended) WHERE ended IS NULL",
)

# The newest snapshot of each node, as compressed JSON, and counters of the node that only grow, as JSON;
# the next look is written over it.
_THIRD = (
    """CREATE TABLE newest (
        node INTEGER PRIMARY KEY REFERENCES node, time REAL NOT NULL, rules TEXT NOT NULL, look BLOB NOT NULL,
        kept TEXT NOT NULL
    )""",
)

# The newest cordon that there was when a person closed the breaker: what was made until then,
# whatever a clock said.
_FOURTH = (
    "ALTER TABLE breaker ADD COLUMN seen INTEGER",
    "UPDATE breaker SET seen = (SELECT max(id) FROM cordon WHERE began <= closed) WHERE who IS NOT NULL",
)

# Incidents that last: what their nodes show, how unlikely chance is, who closed them and why, and their nodes
# with times. Verdicts and cordons in the name of one. The versions that a node's newest look showed, so that
# nodes can be compared by them without unpacking it.
_FIFTH = (
    "ALTER TABLE incident ADD COLUMN symptoms TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE incident ADD COLUMN likelihood REAL NOT NULL DEFAULT 0",
    "ALTER TABLE incident ADD COLUMN by TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE incident ADD COLUMN closed TEXT NOT NULL DEFAULT ''",
    """CREATE TABLE member (
        incident INTEGER NOT NULL REFERENCES incident, node TEXT NOT NULL, began REAL NOT NULL,
        seen REAL NOT NULL, ended REAL,
        PRIMARY KEY (incident, node)
    ) WITHOUT ROWID""",
    "ALTER TABLE verdict ADD COLUMN incident INTEGER REFERENCES incident",
    "ALTER TABLE cordon ADD COLUMN incident INTEGER REFERENCES incident",
    *(f"ALTER TABLE newest ADD COLUMN {name} TEXT NOT NULL DEFAULT ''"
      for name in ("driver", "kernel", "firmware")),
)

# The components, versions and boot that a node's newest look read, as JSON:
# what its certificate is held against.
_SIXTH = (
    "CREATE TABLE hardware (node INTEGER PRIMARY KEY REFERENCES node, time REAL NOT NULL, boot TEXT NOT "
    "NULL, parts TEXT NOT NULL)",
)

# Machines on their way from power-off to service: where each stands, what was done to it, what somebody has
# to mend, which steps people had left out, and how long each step took. `counts` is 0 for actions from before
# a person had the step begun anew, or of an earlier way.
_SEVENTH = (
    """CREATE TABLE bringup (
        node TEXT PRIMARY KEY, began REAL NOT NULL, who TEXT NOT NULL, step TEXT NOT NULL,
        since REAL NOT NULL, stand TEXT NOT NULL,
        said TEXT NOT NULL, again REAL, looked REAL, ended REAL, kept TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE bringup_deed (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, step TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
        change TEXT NOT NULL,
        began REAL NOT NULL, ended REAL, done INTEGER, said TEXT NOT NULL, counts INTEGER NOT NULL,
        line INTEGER NOT NULL REFERENCES ledger
    )""",
    "CREATE INDEX bringup_deed_node ON bringup_deed (node)",
    """CREATE TABLE bringup_trouble (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, step TEXT NOT NULL, what TEXT NOT NULL,
        owner TEXT NOT NULL, hand TEXT NOT NULL,
        part TEXT NOT NULL, slot TEXT NOT NULL, serial TEXT NOT NULL, began REAL NOT NULL, ended REAL
    )""",
    "CREATE UNIQUE INDEX bringup_trouble_open ON bringup_trouble (node, step, what, part, slot) WHERE ended "
    "IS NULL",
    """CREATE TABLE bringup_skip (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, step TEXT NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL,
        time REAL NOT NULL, ended REAL
    )""",
    "CREATE UNIQUE INDEX bringup_skip_open ON bringup_skip (node, step) WHERE ended IS NULL",
    # `outcome`: so, skipped or retried, NULL as long as the machine is in it; `why` is why it was skipped.
    """CREATE TABLE bringup_step (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, step TEXT NOT NULL, began REAL NOT NULL, ended REAL,
        outcome TEXT, why TEXT NOT NULL
    )""",
    "CREATE UNIQUE INDEX bringup_step_open ON bringup_step (node) WHERE ended IS NULL",
    "CREATE INDEX bringup_step_node ON bringup_step (node, began)",
)

# Of a problem that was read from a kernel log: whose messages (empty where it is not known,
# NULL for other problems), and how it ends.
_EIGHTH = (
    "ALTER TABLE problem ADD COLUMN emitter TEXT",
    "ALTER TABLE problem ADD COLUMN ends TEXT",
)

# What acting safely needs to remember.
_NINTH = (
    # The names that this store puts into its marks, the newest last. One that is restored from a copy takes a
    # new name, so that marks which were made after the copy are not taken for its own.
    "CREATE TABLE name (store TEXT NOT NULL UNIQUE, since REAL NOT NULL)",
    "INSERT INTO name SELECT lower(hex(randomblob(2))), CAST(strftime('%s', 'now') AS REAL)",
    # In whose marks the cordon's number is (empty: of the form without a name). What it was set on: the UID
    # of a node in Kubernetes, else the machine's identity. As which user the back end shows that we set it.
    # When a snapshot of the back end last showed its mark.
    "ALTER TABLE cordon ADD COLUMN store TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE cordon ADD COLUMN identity TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE cordon ADD COLUMN user TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE cordon ADD COLUMN shown REAL",
    # Whether the back end has been asked to make it: what was cut short before is certainly not done.
    "ALTER TABLE cordon ADD COLUMN asked INTEGER NOT NULL DEFAULT 0",
    # When it was set, by the clock of the back end.
    "ALTER TABLE cordon ADD COLUMN stamp REAL",
    # What the newest snapshot of a back end showed that no cordon of this store accounts for: marks of other
    # stores or of cordons that are over, and words of a person beside a mark of ours.
    """CREATE TABLE stray (
        backend TEXT NOT NULL, node TEXT NOT NULL, kind TEXT NOT NULL, mark TEXT NOT NULL,
        words TEXT NOT NULL, seen REAL NOT NULL,
        PRIMARY KEY (backend, node)
    )""",
    # The kind and the name of the place of the incident in whose name it was made, as they were then; empty
    # where there was none.
    "ALTER TABLE cordon ADD COLUMN place TEXT NOT NULL DEFAULT ''",
    # Of a problem that was read from a kernel log: the boot, and of the newest report the record's sequence
    # and seconds since boot.
    "ALTER TABLE problem ADD COLUMN boot TEXT",
    "ALTER TABLE problem ADD COLUMN sequence INTEGER",
    "ALTER TABLE problem ADD COLUMN at REAL",
    # A hash of the installation's machine-id, and when the newest sweep met another one than before; NULL
    # where it never did.
    "ALTER TABLE node ADD COLUMN machine TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE node ADD COLUMN machine_since REAL",
    # Of the rules that have had a problem on the node, those that this snapshot measured, as JSON.
    "ALTER TABLE look ADD COLUMN measured TEXT NOT NULL DEFAULT '[]'",
    # Of a problem that a burn-in found, as JSON: its run and length, the stages that must pass, the tests for
    # and against.
    "ALTER TABLE problem ADD COLUMN evidence TEXT",
    # Since when each thing that decides is as it is: rules, SKUs, files of the policy, muster itself; and, by
    # node, drivers, kernels and firmwares that changed. The newest of each is what holds.
    """CREATE TABLE version (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL,
        who TEXT NOT NULL, began REAL NOT NULL,
        seen REAL NOT NULL
    )""",
    "CREATE INDEX version_name ON version (kind, name, id)",
    # Runs of triage --apply; `finished` is NULL while one is at work, or was killed. `holder` is its process,
    # as JSON.
    """CREATE TABLE triage_run (
        id INTEGER PRIMARY KEY, began REAL NOT NULL, finished REAL, who TEXT NOT NULL, host TEXT NOT NULL,
        outcome TEXT NOT NULL,
        holder TEXT NOT NULL
    )""",
    # The files that decided at the newest triage --apply: the policy's and the site's rules, and the packaged
    # ones as one.
    "CREATE TABLE policy_file (name TEXT PRIMARY KEY, digest TEXT NOT NULL, seen REAL NOT NULL) WITHOUT "
    "ROWID",
)

# When a node was last screened in service, by which run, and whether it was conclusive;
# the newest of each.
_TENTH = (
    "CREATE TABLE screened (node TEXT PRIMARY KEY, run TEXT NOT NULL, at REAL NOT NULL, told INTEGER NOT "
    "NULL) WITHOUT ROWID",
)

# Rules that were renamed: what is open goes on under the new id. A silence by a glob holds for both, as a
# site may have rules of its own.
_ELEVENTH = (
    "CREATE TABLE renamed (rule TEXT NOT NULL)",
    "INSERT INTO renamed VALUES ('fabric-clique'), ('fabric-health'), ('fabric-imex'), ('fabric-manager'), "
    "('fabric-manager-log'), ('fabric-state')",
    "UPDATE problem SET rule = 'nvlink-' || rule WHERE rule IN (SELECT rule FROM renamed)",
    "UPDATE version SET name = 'nvlink-' || name WHERE kind = 'rule' AND name IN (SELECT rule FROM renamed)",
    "UPDATE silence SET rule = 'nvlink-' || rule WHERE rule IN (SELECT rule FROM renamed)",
    "INSERT INTO silence (nodes, rule, why, who, began, until, ended) SELECT nodes, 'nvlink-' || rule, "
    "why, who, began, until, ended FROM silence WHERE substr(rule, 1, 6) = 'fabric' AND instr(rule, '*') "
    "ORDER BY id",
    """UPDATE look SET measured = (
        SELECT json_group_array(CASE WHEN value IN (SELECT rule FROM renamed)
                                THEN 'nvlink-' || value ELSE value END)
        FROM json_each(measured)
    ) WHERE instr(measured, '"fabric-')""",
    # A symptom begins with its rule.
    """UPDATE incident SET symptoms = (
        SELECT json_group_array(CASE WHEN substr(value, 1, instr(value || ' ', ' ') - 1)
                                     IN (SELECT rule FROM renamed)
                                THEN 'nvlink-' || value ELSE value END) FROM json_each(symptoms)
    ) WHERE instr(symptoms, '"fabric-')""",
    "DROP TABLE renamed",
)

# Nodes that their newest sweep left out, being healthy by their agents: when that sweep began, when the agent
# judged, where its metrics came from, and by what it judged, as JSON. How many nodes each sweep left out.
_TWELFTH = (
    """CREATE TABLE left_out (
        node INTEGER PRIMARY KEY REFERENCES node, swept REAL NOT NULL, at REAL NOT NULL, target TEXT NOT NULL,
        basis TEXT NOT NULL
    )""",
    "ALTER TABLE sweep ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0",
)

# RMAs that a person closed, with the reason: they accuse no one any more. Of a problem that ended as its part
# left the node: whether it begins again where the part is met next. Parts by serial number alone, the seats
# of a slot, and what changed seats lately.
_PARTS = (
    "ALTER TABLE problem ADD COLUMN took_along INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX problem_took_along ON problem (component) WHERE took_along = 1",
    "ALTER TABLE rma ADD COLUMN closed REAL",
    "ALTER TABLE rma ADD COLUMN closed_why TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX component_serial ON component (serial COLLATE NOCASE)",
    "CREATE INDEX seat_slot ON seat (node, slot)",
    "CREATE INDEX seat_began ON seat (began)",
    "CREATE INDEX rma_serial ON rma (serial COLLATE NOCASE)",
)

# The number in a cordon's mark, where it is not the row's: it was made while the store could not be opened.
_RESTORE = (
    "ALTER TABLE cordon ADD COLUMN number INTEGER",
)

# What a deciding thing said, as JSON, so that a change of it can be put in words: a rule's limits and
# severity, a SKU's numbers, a fault of the policy. Empty for what was noted before.
_CHANGED = ("ALTER TABLE version ADD COLUMN said TEXT NOT NULL DEFAULT ''",)

# What kept a node from being healthy is in its problems; no one read it here. Made anew, as the SQLite of
# older distributions cannot drop a column.
_LOOK = (
    """CREATE TABLE look_anew (
        node INTEGER NOT NULL REFERENCES node, profile TEXT NOT NULL, time REAL NOT NULL, state TEXT NOT NULL,
        measured TEXT NOT NULL DEFAULT '[]',
        PRIMARY KEY (node, profile, time)
    ) WITHOUT ROWID""",
    "INSERT INTO look_anew SELECT node, profile, time, state, measured FROM look",
    "DROP TABLE look",
    "ALTER TABLE look_anew RENAME TO look",
)

# Which file a cordon is in, where its back end is one: a site may have several of one kind.
_CORDON_FILE = (
    "ALTER TABLE cordon ADD COLUMN file TEXT NOT NULL DEFAULT ''",
    "DROP INDEX cordon_open",
    "CREATE UNIQUE INDEX cordon_open ON cordon (node, backend, file) WHERE ended IS NULL",
)

# The firmware of each machine's components, as JSON: what sweeps and controllers reported last, each version
# with the time of its own reading; `time` is that of the newest look.
_FIRMWARE = (
    "CREATE TABLE firmware (node INTEGER PRIMARY KEY REFERENCES node, time REAL NOT NULL, read TEXT NOT "
    "NULL)",
    # Each step of an update that was begun: `target` names the version and the payload, `done` is NULL where
    # it is not known whether the controller took it, and steps that a person had begun anew count no more.
    """CREATE TABLE firmware_step (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, entry TEXT NOT NULL, target TEXT NOT NULL,
        step TEXT NOT NULL, began REAL NOT NULL, ended REAL, done INTEGER, message TEXT NOT NULL,
        counts INTEGER NOT NULL, line INTEGER NOT NULL REFERENCES ledger
    )""",
    "CREATE INDEX firmware_step_node ON firmware_step (node)",
)

# What muster watch found of running jobs, by node ('' for what is of no single node); `ended` is NULL while
# it lasts.
_WATCHED = (
    """CREATE TABLE watched (
        job TEXT NOT NULL, finding TEXT NOT NULL, node TEXT NOT NULL, ranks TEXT NOT NULL,
        pattern TEXT NOT NULL, cause TEXT NOT NULL, certainty TEXT NOT NULL, share REAL NOT NULL,
        said TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL, ended REAL,
        PRIMARY KEY (job, finding, node)
    ) WITHOUT ROWID""",
    "CREATE INDEX watched_seen ON watched (seen)",
)

# What muster fabric check found. A subnet is known by its switches' GUIDs, as its name is how it was asked
# for; `checked` is when it was last seen. Of a finding `seen` is when a check last measured and showed it;
# `missed` is the newest check that could not measure it (then `unmeasured` says why), NULL where the newest
# did. Lists are JSON.
_FABRIC = (
    "CREATE TABLE fabric_subnet (id INTEGER PRIMARY KEY, plane TEXT NOT NULL, guids TEXT NOT NULL, "
    "checked REAL NOT NULL)",
    """CREATE TABLE fabric_finding (
        id INTEGER PRIMARY KEY, subnet INTEGER NOT NULL REFERENCES fabric_subnet, plane TEXT NOT NULL,
        rule TEXT NOT NULL, kind TEXT NOT NULL, place TEXT NOT NULL, severity TEXT NOT NULL,
        owner TEXT NOT NULL, observed TEXT NOT NULL, expected TEXT NOT NULL, ends TEXT NOT NULL,
        nodes TEXT NOT NULL, parts TEXT NOT NULL, rails TEXT NOT NULL, leaf TEXT, touched TEXT NOT NULL,
        gone TEXT NOT NULL, words TEXT NOT NULL, checks INTEGER NOT NULL, began REAL NOT NULL,
        seen REAL NOT NULL, missed REAL, unmeasured TEXT NOT NULL, ended REAL
    )""",
    "CREATE INDEX fabric_finding_open ON fabric_finding (subnet) WHERE ended IS NULL",
    "CREATE INDEX fabric_finding_seen ON fabric_finding (seen)",
)

# Ports of the fabric that we disabled: `asked` is NULL until the fabric is asked and where it certainly was
# not done, `held` until it was read back as disabled; `ended` is NULL until it was read back as enabled.
_PORTS = (
    """CREATE TABLE disabled_port (
        id INTEGER PRIMARY KEY, plane TEXT NOT NULL, guid TEXT NOT NULL, number INTEGER NOT NULL,
        place TEXT NOT NULL, peer_guid TEXT NOT NULL, peer_number INTEGER NOT NULL, why TEXT NOT NULL,
        lost TEXT NOT NULL, route TEXT NOT NULL, who TEXT NOT NULL, began REAL NOT NULL, asked REAL,
        held REAL, undo REAL, ended REAL, outcome TEXT NOT NULL, line INTEGER NOT NULL REFERENCES ledger,
        undo_line INTEGER REFERENCES ledger
    )""",
    "CREATE UNIQUE INDEX disabled_port_open ON disabled_port (guid, number) WHERE ended IS NULL",
)

# Names in plain words: what was collected is a snapshot, what is done an action, what is reported a message.
_PLAIN_NAMES = (
    "ALTER TABLE look RENAME TO snapshot",
    "ALTER TABLE newest RENAME COLUMN look TO snapshot",
    "ALTER TABLE screened RENAME COLUMN told TO conclusive",
    "ALTER TABLE bringup RENAME COLUMN said TO message",
    "ALTER TABLE bringup_deed RENAME TO bringup_action",
    "ALTER TABLE bringup_action RENAME COLUMN said TO message",
    "DROP INDEX bringup_deed_node",
    "CREATE INDEX bringup_action_node ON bringup_action (node)",
    "ALTER TABLE version RENAME COLUMN said TO content",
    "ALTER TABLE watched RENAME COLUMN said TO message",
)

# A line that says how the store was made to agree with what a back end shows.
_RECONCILED = ("UPDATE ledger SET action = 'reconcile' WHERE action = 'look'",)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH,
                                           _EIGHTH, _NINTH, _TENTH, _ELEVENTH, _TWELFTH, _PARTS, _RESTORE,
                                           _CHANGED, _LOOK, _CORDON_FILE, _FIRMWARE, _WATCHED,
                                           _FABRIC, _PORTS, _PLAIN_NAMES, _RECONCILED)
