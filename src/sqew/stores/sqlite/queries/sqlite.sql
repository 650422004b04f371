-- Where SQLite says it differently: one writer at a time needs no locks on rows.

-- fragment: locked

-- fragment: shared

-- fragment: kept

-- fragment: unless_locked

-- name: insert_staged
-- Messages that differ in their bodies only, with ids after ?8 in a row. Each of ?9 is ten digits, the checksum, and the
-- body behind them.
INSERT INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, expires_at, is_text,
                          checksum, body)
SELECT ?8 + rowid, ?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, CAST(substr(value, 1, 10) AS INTEGER), substr(value, 11)
  FROM carray(?9)

-- name: insert_copies
-- Messages (?10, each ten digits, its checksum, and its body) once for each queue (?11, of which there are ?8), with ids
-- from ?9 on in a row.
INSERT INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, expires_at, is_text, headers,
                          checksum, body)
SELECT ?9 + (new.rowid - 1) * ?8 + queue.rowid - 1, queue.value, ?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7,
       CAST(substr(new.value, 1, 10) AS INTEGER), substr(new.value, 11)
  FROM carray(?10) AS new CROSS JOIN carray(?11) AS queue

-- fragment: of_deleted
-- See row_capture.py.
AND sqew_captures({ended})

-- fragment: among_ids
id IN (SELECT value FROM carray(?1))
