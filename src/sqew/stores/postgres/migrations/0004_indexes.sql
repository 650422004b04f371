-- Indexes that end with an id, without rows that do not exist: so they are none for who looks for a row by its id alone.
-- A database whose tables were empty when they were last counted takes any index for as good as the right one, and would
-- read one of these whole.
DROP INDEX sqew_archive_queue;
CREATE INDEX sqew_archive_queue ON sqew_archive (queue_id, outcome, id) WHERE queue_id IS NOT NULL;
DROP INDEX sqew_subscription_pattern;
CREATE INDEX sqew_subscription_pattern ON sqew_subscription (pattern, id) WHERE pattern IS NOT NULL;
DROP INDEX sqew_chunk_part;
CREATE INDEX sqew_chunk_part ON sqew_chunk (staging_id, part_id, id) WHERE staging_id IS NOT NULL;
