-- Retentions that were changed: what was dated by the former ones is dated anew, in steps.
CREATE TABLE sqew_redating (
  queue_id bigint NOT NULL,
  kind     text COLLATE "C" NOT NULL,  -- what is dated anew: messages, keys, or what is in the archive as done or dead
  since    bigint NOT NULL,            -- when the policy was changed
  former   text COLLATE "C" NOT NULL,  -- messages: the lifetimes that the queue gave before, as JSON
  reached  text COLLATE "C" NOT NULL,  -- the last key or id that was looked at
  PRIMARY KEY (queue_id, kind)
);

-- What was archived before a retention was shortened still has the date that it was given then.
INSERT INTO sqew_redating
SELECT q.id, k.kind, 0, '[]', '' FROM sqew_queue q, (SELECT 'done' AS kind UNION ALL SELECT 'dead') AS k
 WHERE q.name IS NOT NULL;
