-- Subscriptions, and what is posted to endpoints.

-- fragment: subscription
s.id, s.pattern, s.protocol, s.target, s.form, s.created_at,
s.protocol = 'queue' AND NOT EXISTS (SELECT 1 FROM sqew_queue q WHERE q.name = s.target), s.uuid, s.details, s.state,
s.ends_at

-- name: subscriptions_version
SELECT subscriptions FROM sqew_meta WHERE id = 1

-- name: bump_subscriptions
UPDATE sqew_meta SET subscriptions = subscriptions + 1 WHERE id = 1 RETURNING subscriptions

-- name: insert_subscription
INSERT INTO sqew_subscription (pattern, protocol, target, form, created_at, uuid, details, state, ends_at, filtered)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) RETURNING id

-- name: subscription_to
SELECT {subscription} FROM sqew_subscription s WHERE s.pattern = ?1 AND s.target = ?2

-- name: subscription_by_id
SELECT {subscription} FROM sqew_subscription s WHERE s.id = ?1

-- name: subscription_by_uuid
SELECT {subscription} FROM sqew_subscription s WHERE s.uuid = ?1

-- name: update_subscription
UPDATE sqew_subscription SET form = ?2, uuid = ?3, details = ?4, state = ?5, ends_at = ?6, filtered = ?7 WHERE id = ?1

-- name: delete_subscription
DELETE FROM sqew_subscription WHERE id = ?1

-- name: log_unsubscription
INSERT INTO sqew_unsubscription (version, id, pattern, protocol, target, form) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: forget_unsubscriptions
DELETE FROM sqew_unsubscription WHERE version <= ?1

-- name: unsubscriptions_since
SELECT id, pattern, protocol, target, form FROM sqew_unsubscription WHERE version > ?1

-- name: subscriptions_ended
SELECT {subscription} FROM sqew_subscription s WHERE s.ends_at <= ?1 ORDER BY s.ends_at LIMIT ?2 {unless_locked}

-- name: subscription_taking
-- What SNS calls a subscription, nothing where it does not know it; whether it gets what is published; and what SNS
-- says of it and its topic. No row where there is none (any more).
SELECT coalesce(s.uuid, ''), s.state = 'confirmed', s.details, t.attributes
  FROM sqew_subscription s LEFT JOIN sqew_topic t ON t.name = s.pattern AND s.uuid IS NOT NULL WHERE s.id = ?1

-- name: subscriptions_after
-- Who keeps all of them in memory reads them with 0 at first, and then what has come since.
SELECT id, pattern, protocol, target, form, uuid, details, state = 'confirmed' FROM sqew_subscription
 WHERE id > ?1 ORDER BY id

-- name: list_subscriptions
SELECT {subscription} FROM sqew_subscription s WHERE s.id > ?1 ORDER BY s.id LIMIT ?2

-- name: subscriptions_to_pattern
SELECT {subscription} FROM sqew_subscription s WHERE s.pattern = ?1 AND s.id > ?2 ORDER BY s.id LIMIT ?3

-- name: subscriptions_of_queue
SELECT {subscription} FROM sqew_subscription s
 WHERE s.protocol = 'queue' AND s.target = ?1 AND s.id > ?2 ORDER BY s.id LIMIT ?3

-- name: insert_payload
INSERT INTO sqew_payload (routing_key, message_id, form, is_text, checksum, pending, body, kind)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING id

-- name: insert_delivery
INSERT INTO sqew_delivery (payload_id, subscription_id, endpoint, checksum, created_at, expires_at, due_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: subscriptions_due
-- Whose deliveries are due, the longest due first: each as often as it has some.
SELECT CAST(subscription_id AS INTEGER) FROM sqew_delivery
 WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at LIMIT ?2

-- name: turns
-- Subscriptions that have any deliveries, each once, those after ?1 up to ?2, and whether one is due. A step in the
-- index for each (0.6 µs), however many deliveries it has; and as there may be very many that only wait for their next
-- attempt, no more than ?3 of them.
WITH RECURSIVE turn (subscription_id, due_at) AS (
  SELECT * FROM (SELECT subscription_id, due_at FROM sqew_delivery
                  WHERE due_at IS NOT NULL AND subscription_id > ?1 AND subscription_id <= ?2
                  ORDER BY subscription_id, due_at LIMIT 1) AS first
  UNION ALL
  SELECT d.subscription_id, d.due_at FROM turn JOIN sqew_delivery d ON d.id =
         (SELECT id FROM sqew_delivery
           WHERE due_at IS NOT NULL AND subscription_id > turn.subscription_id AND subscription_id <= ?2
           ORDER BY subscription_id, due_at LIMIT 1)
)
SELECT subscription_id, due_at <= ?4 FROM turn LIMIT ?3

-- name: due_deliveries
-- Text as bytes, here and below: what was damaged need not be UTF-8, and must not keep the other rows from being read.
SELECT id, payload_id, CAST(endpoint AS BLOB), checksum, expires_at <= ?2, attempts FROM sqew_delivery
 WHERE subscription_id = ?1 AND due_at IS NOT NULL AND due_at <= ?2 ORDER BY due_at LIMIT ?3 {unless_locked}

-- fragment: payload
CAST(p.routing_key AS BLOB), CAST(p.message_id AS BLOB), p.form, p.is_text, p.checksum, CAST(p.body AS BLOB)

-- name: payload
SELECT {payload}, p.kind FROM sqew_payload p WHERE p.id = ?1

-- name: claim_delivery
-- The time up to which it was claimed at first tells one claim from another, however often it is renewed.
UPDATE sqew_delivery SET due_at = ?2, claimed = ?2 WHERE id = ?1

-- name: renew_delivery
-- It takes long: nobody else is to try it yet. Unless somebody has taken it over since.
UPDATE sqew_delivery SET due_at = ?3 WHERE id = ?1 AND claimed = ?2

-- name: first_delivery_due
SELECT min(due_at) FROM sqew_delivery WHERE due_at IS NOT NULL

-- name: next_delivery_due
SELECT min(due_at) FROM sqew_delivery WHERE due_at IS NOT NULL AND due_at > ?1

-- name: unsubscribed_deliveries
-- What was on its way to an endpoint that nobody wants to reach any more. What is exhausted stays to be looked at.
SELECT id FROM sqew_delivery WHERE subscription_id = ?1 AND due_at IS NOT NULL ORDER BY due_at, id LIMIT ?2 {unless_locked}

-- name: delete_delivery
DELETE FROM sqew_delivery WHERE id = ?1 RETURNING payload_id

-- name: release_payload
UPDATE sqew_payload SET pending = pending - 1 WHERE id = ?1 RETURNING pending

-- name: delete_payload
DELETE FROM sqew_payload WHERE id = ?1

-- name: postpone_delivery
-- It failed: it is tried again at its time, or never. Unless somebody else has taken it over since.
UPDATE sqew_delivery SET due_at = ?3, claimed = 0, attempts = attempts + 1, tried_at = ?4, status = ?5, error = ?6
 WHERE id = ?1 AND claimed = ?2

-- name: unclaim_delivery
UPDATE sqew_delivery SET due_at = ?3, claimed = 0 WHERE id = ?1 AND claimed = ?2

-- name: payload_with_details
-- What a delivery that is exhausted would have posted, and what SNS says of its subscription.
SELECT s.details, CAST(d.endpoint AS BLOB), d.payload_id, d.checksum, {payload}, p.kind
  FROM sqew_delivery d JOIN sqew_payload p ON p.id = d.payload_id JOIN sqew_subscription s ON s.id = d.subscription_id
 WHERE d.id = ?1

-- fragment: delivery
d.id, d.subscription_id, CAST(d.endpoint AS BLOB), CAST(p.routing_key AS BLOB), CAST(p.message_id AS BLOB),
coalesce(p.form, 0), d.claimed, d.attempts, d.created_at, d.due_at, d.tried_at, d.status, CAST(d.error AS BLOB)

-- fragment: with_payload
-- What it would post, if that is there.
LEFT JOIN sqew_payload p ON p.id = d.payload_id

-- name: get_delivery
SELECT {delivery}, d.payload_id, d.checksum FROM sqew_delivery d {with_payload}
 WHERE d.id = ?1

-- name: list_deliveries
SELECT {delivery} FROM sqew_delivery d {with_payload}
 WHERE d.id > ?1 AND (CAST(?2 AS BIGINT) IS NULL OR d.subscription_id = ?2)
   AND (CAST(?3 AS TEXT) IS NULL OR d.due_at IS NOT NULL
                      AND ?3 = CASE WHEN d.claimed <> 0 AND d.due_at > ?4 THEN 'delivering' ELSE 'pending' END)
 ORDER BY d.id LIMIT ?5

-- name: list_exhausted
SELECT {delivery} FROM sqew_delivery d {with_payload}
 WHERE d.due_at IS NULL AND d.id > ?1 ORDER BY d.id LIMIT ?2

-- name: list_exhausted_of
SELECT {delivery} FROM sqew_delivery d {with_payload}
 WHERE d.due_at IS NULL AND d.subscription_id = ?1 AND d.id > ?2 ORDER BY d.id LIMIT ?3

-- name: count_waiting_deliveries
SELECT count(*) FROM sqew_delivery WHERE due_at IS NOT NULL

-- name: count_exhausted_deliveries
SELECT count(*) FROM sqew_delivery WHERE due_at IS NULL

-- name: count_unsubscribed_deliveries
SELECT count(*) FROM sqew_delivery d
 WHERE due_at IS NULL AND NOT EXISTS (SELECT 1 FROM sqew_subscription s WHERE s.id = d.subscription_id)

-- name: forgettable_deliveries
-- What was exhausted at ?1 or before. Left to itself SQLite takes the index of all that are, and sorts them.
SELECT id FROM sqew_delivery INDEXED BY sqew_delivery_given_up
 WHERE due_at IS NULL AND tried_at <= ?1 ORDER BY tried_at LIMIT ?2 {unless_locked}

-- name: exhausted_deliveries
SELECT id FROM sqew_delivery WHERE due_at IS NULL AND id > ?1 ORDER BY id LIMIT ?2 {locked}

-- name: exhausted_deliveries_of
SELECT id FROM sqew_delivery WHERE due_at IS NULL AND subscription_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3 {locked}

-- name: revive_delivery
-- Not one whose subscription is gone: it would be dropped. Somebody wants it posted now, however late it is.
UPDATE sqew_delivery
   SET due_at = ?2, claimed = 0, attempts = 0, expires_at = NULL, status = NULL, error = NULL
 WHERE id = ?1 AND +due_at IS NULL
   AND (SELECT s.id FROM sqew_subscription s WHERE s.id = sqew_delivery.subscription_id) IS NOT NULL

-- name: signing_keys
SELECT id, private_key, certificate, created_at FROM sqew_signing_key ORDER BY number DESC

-- name: insert_signing_key
INSERT INTO sqew_signing_key (id, private_key, certificate, created_at) VALUES (?1, ?2, ?3, ?4)
