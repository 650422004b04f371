-- Who reads a queue in claims that last over restarts: a streaming query, by the name it has given itself.
CREATE TABLE sqew_consumer (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  queue_id   INTEGER NOT NULL,
  name       TEXT NOT NULL,
  owner      TEXT NOT NULL,     -- who has opened it last,
  epoch      INTEGER NOT NULL,  -- as the how manieth,
  hold_ms    INTEGER NOT NULL,  -- for how long at a time,
  held_until INTEGER NOT NULL,  -- and until when nobody else may
  last       INTEGER NOT NULL,  -- the highest number that a claim of it ever had
  is_closing INTEGER NOT NULL,  -- 1: it goes when its claims are gone
  UNIQUE (queue_id, name)
);

-- Messages that a consumer has leased together. They themselves are leased for years: this is the lease that counts.
CREATE TABLE sqew_claim (
  consumer_id INTEGER NOT NULL,
  number      INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,  -- 0: it is being given back
  messages    INTEGER NOT NULL,
  is_sealed   INTEGER NOT NULL,  -- 0: more messages may be added to it
  PRIMARY KEY (consumer_id, number)
) WITHOUT ROWID;
CREATE INDEX sqew_claim_lease ON sqew_claim (lease_until);

-- What was received for a claim in one transaction, as far as it is not settled.
CREATE TABLE sqew_claim_chunk (
  consumer_id INTEGER NOT NULL,
  number      INTEGER NOT NULL,
  chunk       INTEGER NOT NULL,
  messages    INTEGER NOT NULL,  -- how many there were
  token       TEXT NOT NULL,
  ids         BLOB NOT NULL,     -- of 8 bytes each, the lowest first
  PRIMARY KEY (consumer_id, number, chunk)
);

-- Of messages that are over but claimed there may be a million: they are not to be looked at before their leases end.
DROP INDEX sqew_message_expires;
CREATE INDEX sqew_message_expires ON sqew_message (CASE WHEN lease_until > expires_at THEN lease_until ELSE expires_at END)
 WHERE expires_at IS NOT NULL;
