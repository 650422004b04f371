-- What a dialect keeps with a queue and nobody else understands, as JSON.
ALTER TABLE sqew_queue ADD COLUMN extras TEXT NOT NULL DEFAULT '{}';

ALTER TABLE sqew_message ADD COLUMN first_received_at INTEGER;
