"""The store's tables, as a new store has them; `healthcheck.store.migrations` gives an older one the same.

Times are epoch seconds. `ended` is NULL as long as a thing holds.
"""

from __future__ import annotations

SCHEMA: tuple[str, ...] = (
    # Sweeps; `left_out` is how many nodes it left out, being healthy by their agents.
    """CREATE TABLE sweep (
        id INTEGER PRIMARY KEY, started REAL NOT NULL, finished REAL NOT NULL, partial INTEGER NOT NULL,
        source TEXT NOT NULL, rules TEXT NOT NULL, profiles TEXT NOT NULL, nodes INTEGER NOT NULL,
        unreached INTEGER NOT NULL, left_out INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX sweep_started ON sweep (started)",
    # `machine` is a hash of the installation's machine-id, `machine_since` when a sweep met another one
    # than before (NULL where none did).
    """CREATE TABLE node (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, machine TEXT NOT NULL DEFAULT '',
        machine_since REAL
    )""",
    # A node's states, one after the other.
    """CREATE TABLE spell (
        id INTEGER PRIMARY KEY, node INTEGER NOT NULL REFERENCES node, state TEXT NOT NULL,
        reason TEXT NOT NULL, stage TEXT, began REAL NOT NULL, seen REAL NOT NULL, ended REAL,
        sweeps INTEGER NOT NULL
    )""",
    "CREATE UNIQUE INDEX spell_open ON spell (node) WHERE ended IS NULL",
    "CREATE INDEX spell_node ON spell (node, began)",
    # One thing that is wrong, or cannot be measured, from when it was first seen to when a sweep showed
    # it gone. `repair` is what the driver asked for. Where it was read from a kernel log: `emitter`
    # whose messages (empty where it is not known, NULL for other problems), `ends` how it ends, `boot`,
    # and of the newest report the record's `sequence` and seconds since boot (`at`). `evidence` is a
    # burn-in's, as JSON: its run and length, the stages that must pass, the tests for and against.
    # `took_along`: it ended as its part left the node, and begins again where the part is met next.
    """CREATE TABLE problem (
        id INTEGER PRIMARY KEY, node INTEGER NOT NULL REFERENCES node, rule TEXT NOT NULL,
        subject TEXT NOT NULL, component INTEGER REFERENCES component, status TEXT NOT NULL,
        severity TEXT NOT NULL, origin TEXT, owner TEXT, observed TEXT NOT NULL, expected TEXT NOT NULL,
        reason TEXT NOT NULL, remedy TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL, ended REAL,
        sweeps INTEGER NOT NULL, repair TEXT, emitter TEXT, ends TEXT, boot TEXT, sequence INTEGER, at REAL,
        evidence TEXT, took_along INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE UNIQUE INDEX problem_open ON problem (node, rule, subject, status) WHERE ended IS NULL",
    "CREATE INDEX problem_node ON problem (node, began)",
    "CREATE INDEX problem_component ON problem (component) WHERE component IS NOT NULL",
    "CREATE INDEX problem_ended ON problem (ended) WHERE ended IS NOT NULL",
    "CREATE INDEX problem_took_along ON problem (component) WHERE took_along = 1",
    # Parts that are known by their own serial number, wherever they sit.
    """CREATE TABLE component (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, serial TEXT NOT NULL, UNIQUE (kind, serial)
    )""",
    "CREATE INDEX component_serial ON component (serial COLLATE NOCASE)",
    # Where parts sit and sat.
    """CREATE TABLE seat (
        id INTEGER PRIMARY KEY, component INTEGER NOT NULL REFERENCES component,
        node INTEGER NOT NULL REFERENCES node, slot TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL,
        ended REAL
    )""",
    "CREATE UNIQUE INDEX seat_open ON seat (node, slot) WHERE ended IS NULL",
    "CREATE INDEX seat_component ON seat (component)",
    "CREATE INDEX seat_slot ON seat (node, slot)",
    "CREATE INDEX seat_began ON seat (began)",
    # The newest value of a counter, and every one at which it had changed.
    """CREATE TABLE counter (
        node INTEGER NOT NULL REFERENCES node, slot TEXT NOT NULL, name TEXT NOT NULL, time REAL NOT NULL,
        value REAL NOT NULL,
        PRIMARY KEY (node, slot, name, time)
    ) WITHOUT ROWID""",
    # What muster did, and meant to do: a line is written before the action, and its outcome after it.
    """CREATE TABLE ledger (
        id INTEGER PRIMARY KEY, time REAL NOT NULL, who TEXT NOT NULL, action TEXT NOT NULL,
        node TEXT NOT NULL, why TEXT NOT NULL, evidence TEXT NOT NULL, outcome TEXT, finished REAL
    )""",
    "CREATE INDEX ledger_node ON ledger (node, time)",
    # Our cordons. `state`: meant, held, released or void. The number in the mark that the back end
    # shows is the row's, or `number` where it was made while the store could not be opened. `verdict`
    # is the one in whose name triage made it (NULL where a person did, whom triage leaves it to),
    # `incident` likewise; `place` is that incident's kind and place, as they were then. `store` is in
    # whose marks the number is (empty: of the form without a name), `identity` what it was set on (the
    # UID of a node in Kubernetes, else the machine's identity), `user` as whom the back end shows that
    # we set it, `shown` when a snapshot of the back end last showed its mark, `asked` whether the back
    # end has been asked to make it (what was cut short before is certainly not done), `stamp` when it
    # was set, by the back end's clock, `file` which file it is in where the back end is one.
    """CREATE TABLE cordon (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, backend TEXT NOT NULL, why TEXT NOT NULL,
        who TEXT NOT NULL, state TEXT NOT NULL, began REAL NOT NULL, ended REAL,
        line INTEGER NOT NULL REFERENCES ledger, verdict INTEGER REFERENCES verdict,
        incident INTEGER REFERENCES incident, store TEXT NOT NULL DEFAULT '',
        identity TEXT NOT NULL DEFAULT '', user TEXT NOT NULL DEFAULT '', shown REAL,
        asked INTEGER NOT NULL DEFAULT 0, stamp REAL, place TEXT NOT NULL DEFAULT '', number INTEGER,
        file TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE UNIQUE INDEX cordon_open ON cordon (node, backend, file) WHERE ended IS NULL",
    # A node's boots; `began` is the first sweep that met it.
    """CREATE TABLE boot (
        node INTEGER NOT NULL REFERENCES node, boot TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL,
        PRIMARY KEY (node, boot)
    ) WITHOUT ROWID""",
    # What triage decided, from when to when; `evidence` is JSON.
    """CREATE TABLE verdict (
        id INTEGER PRIMARY KEY, node INTEGER NOT NULL REFERENCES node, fault TEXT NOT NULL,
        isolation TEXT NOT NULL, repair TEXT NOT NULL, owner TEXT NOT NULL, why TEXT NOT NULL,
        evidence TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL, ended REAL,
        incident INTEGER REFERENCES incident
    )""",
    "CREATE UNIQUE INDEX verdict_open ON verdict (node) WHERE ended IS NULL",
    "CREATE INDEX verdict_node ON verdict (node, began)",
    # One cause that is not of one node. `nodes` and `symptoms` (what the nodes show) are JSON,
    # `likelihood` is how unlikely chance is, `by` and `closed` are who closed it and why.
    """CREATE TABLE incident (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, cause TEXT NOT NULL, nodes TEXT NOT NULL,
        why TEXT NOT NULL, owner TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL, ended REAL,
        symptoms TEXT NOT NULL DEFAULT '[]', likelihood REAL NOT NULL DEFAULT 0,
        by TEXT NOT NULL DEFAULT '', closed TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE UNIQUE INDEX incident_open ON incident (kind, cause) WHERE ended IS NULL",
    # The breaker, from when it opened to when it closed. `seen` is the newest cordon that there was
    # when a person closed it: what was made until then, whatever a clock said.
    """CREATE TABLE breaker (
        id INTEGER PRIMARY KEY, opened REAL NOT NULL, why TEXT NOT NULL, closed REAL, who TEXT, reason TEXT,
        seen INTEGER
    )""",
    "CREATE UNIQUE INDEX breaker_open ON breaker ((closed IS NULL)) WHERE closed IS NULL",
    # What a person does not want to hear of until then; `nodes` is a JSON list, `rule` a glob.
    """CREATE TABLE silence (
        id INTEGER PRIMARY KEY, nodes TEXT NOT NULL, rule TEXT NOT NULL, why TEXT NOT NULL,
        who TEXT NOT NULL, began REAL NOT NULL, until REAL NOT NULL, ended REAL
    )""",
    "CREATE INDEX silence_until ON silence (until)",
    # What went to the vendor; `slot` is empty where it is the whole node. One that a person `closed`,
    # with the reason, accuses no one any more.
    """CREATE TABLE rma (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, slot TEXT NOT NULL, kind TEXT NOT NULL,
        serial TEXT NOT NULL, why TEXT NOT NULL, who TEXT NOT NULL, reference TEXT NOT NULL,
        evidence TEXT NOT NULL, opened REAL NOT NULL, shipped REAL, returned REAL, outcome TEXT,
        closed REAL, closed_why TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE UNIQUE INDEX rma_open ON rma (node, slot) WHERE returned IS NULL",
    "CREATE INDEX rma_serial ON rma (serial COLLATE NOCASE)",
    # Nodes that we hold for what is disruptive; `holder` is the process that does, as JSON.
    """CREATE TABLE lease (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, backend TEXT NOT NULL, name TEXT NOT NULL,
        nodes TEXT NOT NULL, why TEXT NOT NULL, who TEXT NOT NULL, holder TEXT NOT NULL,
        began REAL NOT NULL, until REAL NOT NULL, ended REAL, outcome TEXT,
        line INTEGER NOT NULL REFERENCES ledger
    )""",
    "CREATE INDEX lease_open ON lease (ended) WHERE ended IS NULL",
    # The newest snapshot of each node, as compressed JSON; `kept` are counters that only grow, as JSON.
    # The versions are those that it showed, so that nodes can be compared by them without unpacking it.
    """CREATE TABLE newest (
        node INTEGER PRIMARY KEY REFERENCES node, time REAL NOT NULL, rules TEXT NOT NULL,
        snapshot BLOB NOT NULL, kept TEXT NOT NULL, driver TEXT NOT NULL DEFAULT '',
        kernel TEXT NOT NULL DEFAULT '', firmware TEXT NOT NULL DEFAULT ''
    )""",
    # The nodes of incidents.
    """CREATE TABLE member (
        incident INTEGER NOT NULL REFERENCES incident, node TEXT NOT NULL, began REAL NOT NULL,
        seen REAL NOT NULL, ended REAL,
        PRIMARY KEY (incident, node)
    ) WITHOUT ROWID""",
    # The components, versions and boot that a node's newest snapshot read, as JSON: what its
    # certificate is held against.
    """CREATE TABLE hardware (
        node INTEGER PRIMARY KEY REFERENCES node, time REAL NOT NULL, boot TEXT NOT NULL,
        parts TEXT NOT NULL
    )""",
    # Machines on their way from power-off to service: where each stands.
    """CREATE TABLE bringup (
        node TEXT PRIMARY KEY, began REAL NOT NULL, who TEXT NOT NULL, step TEXT NOT NULL,
        since REAL NOT NULL, stand TEXT NOT NULL, message TEXT NOT NULL, again REAL, looked REAL,
        ended REAL, kept TEXT NOT NULL
    ) WITHOUT ROWID""",
    # What was done to a machine on its way. `counts` is 0 for actions from before a person had the step
    # begun anew, or of an earlier way.
    """CREATE TABLE bringup_action (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, step TEXT NOT NULL, key TEXT NOT NULL,
        name TEXT NOT NULL, change TEXT NOT NULL, began REAL NOT NULL, ended REAL, done INTEGER,
        message TEXT NOT NULL, counts INTEGER NOT NULL, line INTEGER NOT NULL REFERENCES ledger
    )""",
    "CREATE INDEX bringup_action_node ON bringup_action (node)",
    # What somebody has to mend.
    """CREATE TABLE bringup_trouble (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, step TEXT NOT NULL, what TEXT NOT NULL,
        owner TEXT NOT NULL, hand TEXT NOT NULL, part TEXT NOT NULL, slot TEXT NOT NULL,
        serial TEXT NOT NULL, began REAL NOT NULL, ended REAL
    )""",
    "CREATE UNIQUE INDEX bringup_trouble_open ON bringup_trouble (node, step, what, part, slot) WHERE "
    "ended IS NULL",
    # The steps that people had left out.
    """CREATE TABLE bringup_skip (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, step TEXT NOT NULL, who TEXT NOT NULL,
        why TEXT NOT NULL, time REAL NOT NULL, ended REAL
    )""",
    "CREATE UNIQUE INDEX bringup_skip_open ON bringup_skip (node, step) WHERE ended IS NULL",
    # How long each step took. `outcome`: so, skipped or retried, NULL as long as the machine is in it;
    # `why` is why it was skipped.
    """CREATE TABLE bringup_step (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, step TEXT NOT NULL, began REAL NOT NULL, ended REAL,
        outcome TEXT, why TEXT NOT NULL
    )""",
    "CREATE UNIQUE INDEX bringup_step_open ON bringup_step (node) WHERE ended IS NULL",
    "CREATE INDEX bringup_step_node ON bringup_step (node, began)",
    # The names that this store puts into its marks, the newest last. One that is restored from a copy
    # takes a new name, so that marks which were made after the copy are not taken for its own.
    "CREATE TABLE name (store TEXT NOT NULL UNIQUE, since REAL NOT NULL)",
    "INSERT INTO name SELECT lower(hex(randomblob(2))), CAST(strftime('%s', 'now') AS REAL)",
    # What the newest snapshot of a back end showed that no cordon of this store accounts for: marks of
    # other stores or of cordons that are over, and words of a person beside a mark of ours.
    """CREATE TABLE stray (
        backend TEXT NOT NULL, node TEXT NOT NULL, kind TEXT NOT NULL, mark TEXT NOT NULL,
        words TEXT NOT NULL, seen REAL NOT NULL,
        PRIMARY KEY (backend, node)
    )""",
    # Since when each thing that decides is as it is: rules, SKUs, files of the policy, muster itself;
    # and, by node, drivers, kernels and firmwares that changed. The newest of each is what holds.
    # `content` is what it said, as JSON, so that a change can be put in words; empty where that was not
    # noted.
    """CREATE TABLE version (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL,
        who TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL, content TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE INDEX version_name ON version (kind, name, id)",
    # Runs of triage --apply; `finished` is NULL while one is at work, or was killed. `holder` is its
    # process, as JSON.
    """CREATE TABLE triage_run (
        id INTEGER PRIMARY KEY, began REAL NOT NULL, finished REAL, who TEXT NOT NULL, host TEXT NOT NULL,
        outcome TEXT NOT NULL, holder TEXT NOT NULL
    )""",
    # The files that decided at the newest triage --apply: the policy's and the site's rules, and the
    # packaged ones as one.
    """CREATE TABLE policy_file (
        name TEXT PRIMARY KEY, digest TEXT NOT NULL, seen REAL NOT NULL
    ) WITHOUT ROWID""",
    # When a node was last screened in service, by which run, and whether it was conclusive.
    """CREATE TABLE screened (
        node TEXT PRIMARY KEY, run TEXT NOT NULL, at REAL NOT NULL, conclusive INTEGER NOT NULL
    ) WITHOUT ROWID""",
    # Nodes that their newest sweep left out, being healthy by their agents: when that sweep began, when
    # the agent judged, where its metrics came from, and by what it judged, as JSON.
    """CREATE TABLE left_out (
        node INTEGER PRIMARY KEY REFERENCES node, swept REAL NOT NULL, at REAL NOT NULL,
        target TEXT NOT NULL, basis TEXT NOT NULL
    )""",
    # The newest snapshots of a node under each profile of the occasion. `measured` are those that it
    # measured of the rules that have had a problem on the node, as JSON.
    """CREATE TABLE snapshot (
        node INTEGER NOT NULL REFERENCES node, profile TEXT NOT NULL, time REAL NOT NULL,
        state TEXT NOT NULL, measured TEXT NOT NULL DEFAULT '[]',
        PRIMARY KEY (node, profile, time)
    ) WITHOUT ROWID""",
    # The firmware of each machine's components, as JSON: what sweeps and controllers reported last,
    # each version with the time of its own reading; `time` is that of the newest snapshot.
    """CREATE TABLE firmware (
        node INTEGER PRIMARY KEY REFERENCES node, time REAL NOT NULL, read TEXT NOT NULL
    )""",
    # Each step of an update that was begun. `target` names the version and the payload, `done` is NULL
    # where it is not known whether the controller took it, `counts` is 0 where a person had it begun
    # anew.
    """CREATE TABLE firmware_step (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, entry TEXT NOT NULL, target TEXT NOT NULL,
        step TEXT NOT NULL, began REAL NOT NULL, ended REAL, done INTEGER, message TEXT NOT NULL,
        counts INTEGER NOT NULL, line INTEGER NOT NULL REFERENCES ledger
    )""",
    "CREATE INDEX firmware_step_node ON firmware_step (node)",
    # What muster watch found of running jobs, by node ('' for what is of no single node); `ended` is
    # NULL while it lasts.
    """CREATE TABLE watched (
        job TEXT NOT NULL, finding TEXT NOT NULL, node TEXT NOT NULL, ranks TEXT NOT NULL,
        pattern TEXT NOT NULL, cause TEXT NOT NULL, certainty TEXT NOT NULL, share REAL NOT NULL,
        message TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL, ended REAL,
        PRIMARY KEY (job, finding, node)
    ) WITHOUT ROWID""",
    "CREATE INDEX watched_seen ON watched (seen)",
    # Subnets that muster fabric check saw. One is known by its switches' GUIDs, as its name is how it
    # was asked for; `checked` is when it was last seen.
    """CREATE TABLE fabric_subnet (
        id INTEGER PRIMARY KEY, plane TEXT NOT NULL, guids TEXT NOT NULL, checked REAL NOT NULL
    )""",
    # What it found. `seen` is when a check last measured and showed it; `missed` is the newest check
    # that could not measure it (then `unmeasured` says why), NULL where the newest did. Lists are JSON.
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
    # Ports of the fabric that we disabled. `asked` is NULL until the fabric is asked and where it
    # certainly was not done, `held` until it was read back as disabled, `ended` until it was read back
    # as enabled.
    """CREATE TABLE disabled_port (
        id INTEGER PRIMARY KEY, plane TEXT NOT NULL, guid TEXT NOT NULL, number INTEGER NOT NULL,
        place TEXT NOT NULL, peer_guid TEXT NOT NULL, peer_number INTEGER NOT NULL, why TEXT NOT NULL,
        lost TEXT NOT NULL, route TEXT NOT NULL, who TEXT NOT NULL, began REAL NOT NULL, asked REAL,
        held REAL, undo REAL, ended REAL, outcome TEXT NOT NULL, line INTEGER NOT NULL REFERENCES ledger,
        undo_line INTEGER REFERENCES ledger
    )""",
    "CREATE UNIQUE INDEX disabled_port_open ON disabled_port (guid, number) WHERE ended IS NULL",
)
