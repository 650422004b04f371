-- Everything is prefixed, so that a queue can live in the same file as the application's own tables.

CREATE TABLE sqew_meta (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  catalog INTEGER NOT NULL,  -- goes up with every change to a queue: other processes then read the queues again
  next_id INTEGER NOT NULL   -- every message id below it may have been given out (ids are reserved in blocks)
);
INSERT INTO sqew_meta VALUES (1, 1, 1);

CREATE TABLE sqew_queue (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  name       TEXT UNIQUE,        -- NULL once deleted: its rows are being swept away
  policy     TEXT NOT NULL,      -- JSON, see model.Policy
  created_at INTEGER NOT NULL
);

CREATE TABLE sqew_lane (
  queue_id INTEGER NOT NULL,
  id       INTEGER NOT NULL,
  name     TEXT NOT NULL,
  turn     INTEGER NOT NULL DEFAULT 0,  -- the lane's standing in the weighted round-robin
  PRIMARY KEY (queue_id, id)
) WITHOUT ROWID;

CREATE TABLE sqew_message (
  id           INTEGER PRIMARY KEY,
  queue_id     INTEGER NOT NULL,
  lane_id      INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  due_at       INTEGER,           -- ready since, or delay or backoff end, or lease end; NULL: behind its FIFO group's head
  attempts     INTEGER NOT NULL DEFAULT 0,
  available_at INTEGER NOT NULL,  -- when the message itself may be delivered, leases and groups apart
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  lease_until  INTEGER,           -- NULL: not leased
  token        TEXT,
  leased_by    TEXT,
  received_at  INTEGER,           -- when the current lease began
  dies_at      INTEGER,           -- lease end of the last delivery that the policy allows
  key          TEXT,
  group_id     TEXT,
  origin       TEXT,              -- dead letters: the queue it died in, its lane there, why and when
  origin_lane  TEXT,
  reason       TEXT,
  died_at      INTEGER,
  is_text      INTEGER NOT NULL,
  checksum     INTEGER NOT NULL,  -- CRC-32 of body, headers and is_text
  headers      BLOB,              -- JSON object
  body         BLOB               -- NULL: in sqew_body
);

-- The claim: one seek per (lane, priority), whatever is leased, delayed or expired. Only claimable rows are in it.
CREATE INDEX sqew_message_due ON sqew_message (queue_id, lane_id, priority, due_at) WHERE due_at IS NOT NULL;

-- FIFO: the next message of a group, and until when any of the group is in flight.
CREATE INDEX sqew_message_group ON sqew_message (queue_id, group_id) WHERE group_id IS NOT NULL;
CREATE INDEX sqew_message_group_lease ON sqew_message (queue_id, group_id, lease_until)
  WHERE group_id IS NOT NULL AND lease_until IS NOT NULL;

-- The dead letters of a queue, whichever dead-letter queue they lie in.
CREATE INDEX sqew_message_origin ON sqew_message (origin) WHERE origin IS NOT NULL;

-- What the sweeper looks for.
CREATE INDEX sqew_message_expires ON sqew_message (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX sqew_message_dies ON sqew_message (dies_at) WHERE dies_at IS NOT NULL;

-- SQLite rewrites a whole row to change one column of it: large bodies stay out of the row that leases change.
CREATE TABLE sqew_body (
  id   INTEGER PRIMARY KEY,
  body BLOB NOT NULL
);

-- Which (lane, priority) pairs a queue has ever held and not been swept of: tiny.
CREATE TABLE sqew_bucket (
  queue_id INTEGER NOT NULL,
  lane_id  INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  PRIMARY KEY (queue_id, lane_id, priority)
) WITHOUT ROWID;

-- Idempotency keys: expires_at is NULL while the message lives.
CREATE TABLE sqew_key (
  queue_id   INTEGER NOT NULL,
  key        TEXT NOT NULL,
  message_id INTEGER NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (queue_id, key)
) WITHOUT ROWID;
CREATE INDEX sqew_key_expires ON sqew_key (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE sqew_archive (
  id           INTEGER PRIMARY KEY,
  queue_id     INTEGER NOT NULL,
  lane         TEXT NOT NULL,
  priority     INTEGER NOT NULL,
  attempts     INTEGER NOT NULL,
  available_at INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  finished_at  INTEGER NOT NULL,
  purge_at     INTEGER,
  outcome      TEXT NOT NULL CHECK (outcome IN ('done', 'dead')),
  reason       TEXT,
  key          TEXT,
  group_id     TEXT,
  is_text      INTEGER NOT NULL,
  checksum     INTEGER NOT NULL,
  headers      BLOB,
  body         BLOB NOT NULL
);
CREATE INDEX sqew_archive_queue ON sqew_archive (queue_id, outcome);
CREATE INDEX sqew_archive_purge ON sqew_archive (purge_at) WHERE purge_at IS NOT NULL;

-- Figures per queue and lane: counts by minute. Minute 0 holds the sum of what is too old to keep apart.
CREATE TABLE sqew_activity (
  queue_id INTEGER NOT NULL,
  lane     TEXT NOT NULL,
  name     TEXT NOT NULL,
  minute   INTEGER NOT NULL,
  count    INTEGER NOT NULL,
  PRIMARY KEY (queue_id, lane, name, minute)
) WITHOUT ROWID;
