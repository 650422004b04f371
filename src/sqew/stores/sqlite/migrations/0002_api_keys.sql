-- Who may do what with a queue, by key. A key itself is never stored: its digest is enough to know it again.
CREATE TABLE sqew_api_key (
  queue_id   INTEGER NOT NULL,
  id         TEXT NOT NULL,      -- the part of the key that may be shown
  digest     BLOB NOT NULL,      -- SHA-256 of the whole key
  scopes     TEXT NOT NULL,      -- with commas between: send,receive,admin
  label      TEXT NOT NULL,
  secret     TEXT,               -- what its requests are signed with; an HMAC can't be checked by a digest. NULL: nothing
  created_at INTEGER NOT NULL,
  PRIMARY KEY (queue_id, id)
) WITHOUT ROWID;

-- Goes up with every change to a key: servers then read the keys again.
ALTER TABLE sqew_meta ADD COLUMN keys INTEGER NOT NULL DEFAULT 1;
