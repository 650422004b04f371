-- All queues at once: one pass over each table, along an index and without its rows where that can be.

-- name: survey_queues
SELECT id, name FROM sqew_queue WHERE name IS NOT NULL ORDER BY name

-- name: survey_lanes
SELECT queue_id, id, name FROM sqew_lane

-- name: survey_ready
SELECT queue_id, lane_id, count(*), min(due_at) FROM sqew_message INDEXED BY sqew_message_due
 WHERE due_at IS NOT NULL AND due_at <= ?1 GROUP BY queue_id, lane_id

-- name: survey_waiting
SELECT queue_id, lane_id, count(*), count(*) FILTER (WHERE lease_until > ?1) FROM sqew_message INDEXED BY sqew_message_due
 WHERE due_at IS NOT NULL AND due_at > ?1 GROUP BY queue_id, lane_id

-- name: survey_blocked
-- Behind the heads of FIFO groups: those taken in one batch with their head are leased, the rest wait.
SELECT queue_id, lane_id, count(*), count(*) FILTER (WHERE lease_until > ?1) FROM sqew_message INDEXED BY sqew_message_group
 WHERE group_id IS NOT NULL AND due_at IS NULL GROUP BY queue_id, lane_id

-- name: survey_dead_letters
SELECT origin, count(*) FROM sqew_message INDEXED BY sqew_message_origin
 WHERE origin IS NOT NULL AND {not_deleted} GROUP BY origin

-- name: survey_archived
SELECT queue_id, outcome, count(*) FROM sqew_archive INDEXED BY sqew_archive_queue GROUP BY queue_id, outcome

-- name: survey_activity
SELECT queue_id, name, CAST(sum(count) AS BIGINT) FROM sqew_activity GROUP BY queue_id, lane, name
