-- Where events go: a pattern of routing keys, and a queue or an endpoint.
CREATE TABLE sqew_subscription (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  pattern    TEXT NOT NULL,
  protocol   TEXT NOT NULL CHECK (protocol IN ('queue', 'http', 'https')),
  target     TEXT NOT NULL,     -- a queue's name or a URL; the queue need not exist (any more)
  form       INTEGER NOT NULL,  -- 0: the message as it is; 1, 2: in an envelope, signed by that version
  created_at INTEGER NOT NULL,
  UNIQUE (pattern, target)
);
CREATE INDEX sqew_subscription_pattern ON sqew_subscription (pattern);
CREATE INDEX sqew_subscription_queue ON sqew_subscription (target) WHERE protocol = 'queue';

-- The last of those that were deleted: who keeps the others in memory need not read them all again.
CREATE TABLE sqew_unsubscription (
  version  INTEGER PRIMARY KEY,  -- what it made of sqew_meta.subscriptions
  id       INTEGER NOT NULL,
  pattern  TEXT NOT NULL,
  protocol TEXT NOT NULL,
  target   TEXT NOT NULL,
  form     INTEGER NOT NULL
);

-- Goes up by one with every change to a subscription: who keeps them in memory then looks again.
ALTER TABLE sqew_meta ADD COLUMN subscriptions INTEGER NOT NULL DEFAULT 1;

-- What is posted: one row for all endpoints that get an event in the same form.
CREATE TABLE sqew_payload (
  id          INTEGER PRIMARY KEY,
  routing_key TEXT NOT NULL,
  message_id  TEXT NOT NULL,
  form        INTEGER NOT NULL,
  is_text     INTEGER NOT NULL,
  checksum    INTEGER NOT NULL,  -- CRC-32 of all of these and the body
  pending     INTEGER NOT NULL,  -- how many deliveries refer to it: with the last it goes
  body        BLOB NOT NULL
);

CREATE TABLE sqew_delivery (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  payload_id      INTEGER NOT NULL,
  subscription_id INTEGER NOT NULL,
  endpoint        TEXT NOT NULL,
  checksum        INTEGER NOT NULL,            -- CRC-32 of payload_id and endpoint
  created_at      INTEGER NOT NULL,
  expires_at      INTEGER,                     -- from then on it is not posted any more
  due_at          INTEGER,                     -- when to try it, or until when it is claimed; NULL: exhausted
  claimed         INTEGER NOT NULL DEFAULT 0,  -- somebody is at it, until due_at
  attempts        INTEGER NOT NULL DEFAULT 0,  -- those that failed
  tried_at        INTEGER,
  status          INTEGER,
  error           TEXT
);

-- The claim: endpoints take turns, so that one with a long backlog is in nobody's way.
CREATE INDEX sqew_delivery_turn ON sqew_delivery (subscription_id, due_at) WHERE due_at IS NOT NULL;
-- When there is something to do again.
CREATE INDEX sqew_delivery_due ON sqew_delivery (due_at) WHERE due_at IS NOT NULL;
-- What is exhausted, in the order of its ids: of one endpoint, and of all.
CREATE INDEX sqew_delivery_exhausted_of ON sqew_delivery (subscription_id) WHERE due_at IS NULL;
CREATE INDEX sqew_delivery_exhausted ON sqew_delivery (due_at) WHERE due_at IS NULL;
-- And what has been exhausted for longest: it is not kept for ever.
CREATE INDEX sqew_delivery_given_up ON sqew_delivery (tried_at) WHERE due_at IS NULL;

-- What envelopes are signed with. The newest is in use; older ones prove what was signed with them.
CREATE TABLE sqew_signing_key (
  number      INTEGER PRIMARY KEY AUTOINCREMENT,
  id          TEXT NOT NULL UNIQUE,
  private_key BLOB NOT NULL,
  certificate BLOB NOT NULL,
  created_at  INTEGER NOT NULL
);

CREATE TABLE sqew_schedule (
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL UNIQUE,
  version     INTEGER NOT NULL,  -- goes up with every change and every fire
  status      TEXT NOT NULL CHECK (status IN ('active', 'paused')),
  target_kind TEXT NOT NULL CHECK (target_kind IN ('queue', 'topic')),
  due_at      INTEGER,           -- when to look at it: the slot, or later after a failure. NULL: paused
  slot_at     INTEGER,           -- the slot that fires next
  details     BLOB NOT NULL,     -- JSON: the rest of model.Schedule
  is_text     INTEGER NOT NULL,
  checksum    INTEGER NOT NULL,  -- CRC-32 of all that says what is sent, and where to
  headers     BLOB,
  body        BLOB NOT NULL
);
CREATE INDEX sqew_schedule_due ON sqew_schedule (due_at) WHERE due_at IS NOT NULL;
