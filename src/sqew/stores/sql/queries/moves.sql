-- Tasks that move dead letters back, in steps.

-- fragment: move_task
id, queue_id, destination, per_second, status, moved, to_move, reason, started_at

-- name: insert_move
INSERT INTO sqew_move_task (id, queue_id, destination, per_second, status, to_move, started_at, due_at)
VALUES (?1, ?2, ?3, ?4, 'running', ?5, ?6, ?6)

-- name: move_running
-- Whether a dead-letter queue has a task already.
SELECT 1 FROM sqew_move_task INDEXED BY sqew_move_task_running WHERE queue_id = ?1 AND due_at IS NOT NULL

-- name: find_move
SELECT {move_task} FROM sqew_move_task WHERE id = ?1

-- name: moves_of
-- The newest tasks of a dead-letter queue.
SELECT {move_task} FROM sqew_move_task WHERE queue_id = ?1 ORDER BY number DESC LIMIT ?2

-- name: next_move
-- When the next step of any task is due.
SELECT due_at FROM sqew_move_task WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1

-- name: due_move
-- Who takes the step holds the task until it is done: another server then finds how far it is.
SELECT {move_task}, last_id, due_at FROM sqew_move_task WHERE due_at <= ?1 ORDER BY due_at LIMIT 1 {locked}

-- name: move_on
UPDATE sqew_move_task SET moved = ?2, last_id = ?3, due_at = ?4 WHERE id = ?1

-- name: end_move
UPDATE sqew_move_task SET status = ?2, moved = ?3, reason = ?4, due_at = NULL WHERE id = ?1

-- name: forget_old_moves
-- Only so many are listed.
DELETE FROM sqew_move_task
 WHERE queue_id = ?1
   AND number NOT IN (SELECT number FROM sqew_move_task WHERE queue_id = ?1 ORDER BY number DESC LIMIT ?2)

-- name: delete_moves_of
DELETE FROM sqew_move_task WHERE queue_id = ?1
