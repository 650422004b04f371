-- Schedules.

-- fragment: schedule
-- Text as bytes: what was damaged need not be UTF-8, and must not keep the other rows from being read.
CAST(name AS BLOB), version, CAST(status AS BLOB), CAST(target_kind AS BLOB), due_at, slot_at, CAST(details AS BLOB),
is_text, checksum, CAST(headers AS BLOB), CAST(body AS BLOB)

-- name: schedule_by_name
SELECT {schedule} FROM sqew_schedule WHERE name = ?1 {locked}

-- name: schedules_near
-- For whoever misspelt one: its neighbours in the order of names.
SELECT CAST(name AS BLOB) FROM (SELECT name FROM sqew_schedule WHERE name < ?1 ORDER BY name DESC LIMIT ?2) AS earlier
UNION ALL
SELECT CAST(name AS BLOB) FROM (SELECT name FROM sqew_schedule WHERE name > ?1 ORDER BY name LIMIT ?2) AS later

-- name: insert_schedule
INSERT INTO sqew_schedule (name, version, status, target_kind, due_at, slot_at, details, is_text, checksum, headers, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)

-- name: update_schedule
UPDATE sqew_schedule
   SET version = ?2, status = ?3, target_kind = ?4, due_at = ?5, slot_at = ?6, details = ?7, is_text = ?8,
       checksum = ?9, headers = ?10, body = ?11
 WHERE name = ?1

-- name: move_schedule
-- After a fire or a failure: the body, which may be large, stays as it is.
UPDATE sqew_schedule
   SET version = ?2, status = ?3, due_at = ?4, slot_at = ?5, details = ?6, checksum = ?7, headers = ?8
 WHERE name = ?1

-- name: delete_schedule
DELETE FROM sqew_schedule WHERE name = ?1

-- name: list_schedules
-- Read as far as there is room.
SELECT {schedule} FROM sqew_schedule
 WHERE name > ?1 AND substr(name, 1, length(?2)) = ?2 AND (CAST(?3 AS TEXT) IS NULL OR status = ?3)
   AND (CAST(?4 AS TEXT) IS NULL OR target_kind = ?4)
 ORDER BY name

-- name: due_schedules
-- Read as far as there is room: those that are damaged don't count.
SELECT {schedule} FROM sqew_schedule WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at

-- name: next_schedule_due
SELECT min(due_at) FROM sqew_schedule WHERE due_at IS NOT NULL AND due_at > ?1
