-- What tells this store from all others: messages of different stores have different UUIDs.
ALTER TABLE sqew_meta ADD COLUMN salt INTEGER NOT NULL DEFAULT 0;
UPDATE sqew_meta SET salt = random();

-- What a dialect keeps with a queue and nobody else understands, as JSON.
ALTER TABLE sqew_queue ADD COLUMN extras TEXT NOT NULL DEFAULT '{}';

-- The queues whose dead letters go to one.
ALTER TABLE sqew_queue ADD COLUMN dead_letter TEXT;
UPDATE sqew_queue SET dead_letter = policy ->> '$.dead_letter' WHERE json_valid(policy);
CREATE INDEX sqew_queue_dead_letter ON sqew_queue (dead_letter, name) WHERE dead_letter IS NOT NULL;

ALTER TABLE sqew_message ADD COLUMN first_received_at INTEGER;

-- The dead letters that lie in a queue, whichever queue they come from.
CREATE INDEX sqew_message_letter ON sqew_message (queue_id) WHERE origin IS NOT NULL;

-- Dead letters on their way back, in steps: of one queue one such task at a time.
CREATE TABLE sqew_move_task (
  number      INTEGER PRIMARY KEY AUTOINCREMENT,
  id          TEXT NOT NULL UNIQUE,
  queue_id    INTEGER NOT NULL,    -- the dead-letter queue
  destination TEXT,                -- NULL: each to where it came from
  per_second  INTEGER,             -- NULL: as fast as may be
  status      TEXT NOT NULL CHECK (status IN ('running', 'completed', 'cancelled', 'failed')),
  moved       INTEGER NOT NULL DEFAULT 0,
  to_move     INTEGER NOT NULL,
  reason      TEXT NOT NULL DEFAULT '',
  started_at  INTEGER NOT NULL,
  last_id     INTEGER NOT NULL DEFAULT 0,  -- of the messages that go to where they came from, how far it is
  due_at      INTEGER              -- when its next step is; NULL: it is over
);
CREATE UNIQUE INDEX sqew_move_task_running ON sqew_move_task (queue_id) WHERE due_at IS NOT NULL;
CREATE INDEX sqew_move_task_queue ON sqew_move_task (queue_id);
CREATE INDEX sqew_move_task_due ON sqew_move_task (due_at) WHERE due_at IS NOT NULL;

-- Receives that were given a name: who repeats one gets the same messages under the same lease.
CREATE TABLE sqew_attempt (
  queue_id    INTEGER NOT NULL,
  id          TEXT NOT NULL,
  token       TEXT NOT NULL,
  lease_until INTEGER NOT NULL,
  messages    TEXT NOT NULL,       -- their ids, as JSON
  expires_at  INTEGER NOT NULL,
  PRIMARY KEY (queue_id, id)
) WITHOUT ROWID;
CREATE INDEX sqew_attempt_expires ON sqew_attempt (expires_at);

-- What SNS calls a topic: a routing key that is known by name.
CREATE TABLE sqew_topic (
  name       TEXT PRIMARY KEY,   -- with its region before it, unless that is the usual one
  attributes TEXT NOT NULL,      -- JSON
  tags       TEXT NOT NULL,      -- JSON
  created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Subscriptions of SNS: the name in their ARN, what SNS says of them as JSON, whether they get anything, and until when
-- those that don't can be confirmed.
ALTER TABLE sqew_subscription ADD COLUMN uuid TEXT;
ALTER TABLE sqew_subscription ADD COLUMN details TEXT;
ALTER TABLE sqew_subscription ADD COLUMN state TEXT NOT NULL DEFAULT 'confirmed'
  CHECK (state IN ('confirmed', 'pending', 'deleted'));
ALTER TABLE sqew_subscription ADD COLUMN ends_at INTEGER;
ALTER TABLE sqew_subscription ADD COLUMN filtered INTEGER NOT NULL DEFAULT 0;  -- 1: it wants only some of the events
CREATE UNIQUE INDEX sqew_subscription_uuid ON sqew_subscription (uuid) WHERE uuid IS NOT NULL;
CREATE INDEX sqew_subscription_ends ON sqew_subscription (ends_at) WHERE ends_at IS NOT NULL;
CREATE INDEX sqew_subscription_filtered ON sqew_subscription (pattern) WHERE filtered = 1;

-- What it is by the name of SNS: a notification, or what asks an endpoint to confirm its subscription, or to restore it.
ALTER TABLE sqew_payload ADD COLUMN kind TEXT NOT NULL DEFAULT 'Notification';
