-- Who sends in whole epochs, each exactly once: a batch job, or a streaming query.
CREATE TABLE sqew_writer (
  queue_id   INTEGER NOT NULL,
  name       TEXT NOT NULL,
  epoch      INTEGER,                     -- the last one that is to be in the queue; NULL: none yet
  promoted   INTEGER NOT NULL DEFAULT 0,  -- how many messages of it were moved into the queue,
  duplicates INTEGER NOT NULL DEFAULT 0,  -- and how many of these had keys that were known
  expires_at INTEGER,                     -- until when all that is known; NULL: it is not all in the queue yet
  PRIMARY KEY (queue_id, name)
) WITHOUT ROWID;
CREATE INDEX sqew_writer_expires ON sqew_writer (expires_at) WHERE expires_at IS NOT NULL;

-- What a writer has sent of an epoch, and nobody receives yet.
CREATE TABLE sqew_staging (
  id       INTEGER PRIMARY KEY,
  queue_id INTEGER NOT NULL,
  writer   TEXT NOT NULL,
  epoch    INTEGER,  -- NULL: it is over, and what is left of it is swept away
  due_at   INTEGER,  -- from when on a server goes on with its promotion; NULL: nobody has decided on one
  ends_at  INTEGER,  -- until when somebody must go on with it, if nobody has decided on its promotion
  UNIQUE (queue_id, writer, epoch)
);
CREATE INDEX sqew_staging_due ON sqew_staging (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sqew_staging_ends ON sqew_staging (ends_at) WHERE ends_at IS NOT NULL;

-- What one attempt of one task has sent of it.
CREATE TABLE sqew_part (
  id         INTEGER PRIMARY KEY,
  staging_id INTEGER NOT NULL,
  name       TEXT NOT NULL,
  messages   INTEGER NOT NULL,
  turn       INTEGER,  -- its place among those that are promoted; NULL: it is not, or nobody has decided yet
  UNIQUE (staging_id, name)
);
CREATE INDEX sqew_part_turn ON sqew_part (staging_id, turn) WHERE turn IS NOT NULL;

-- Messages by the thousand, as `sqew.formats.columns` packs them: moved into the queue in one transaction.
CREATE TABLE sqew_chunk (
  id         INTEGER PRIMARY KEY,
  staging_id INTEGER NOT NULL,
  part_id    INTEGER NOT NULL,
  messages   INTEGER NOT NULL,
  packed     BLOB NOT NULL
);
CREATE INDEX sqew_chunk_part ON sqew_chunk (staging_id, part_id, id);
