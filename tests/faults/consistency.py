"""Invariants of a store's tables between any two transactions."""

from __future__ import annotations

from collections.abc import Callable

import apsw

_NEVER_TRUE = {
    "a message outside every bucket, where no receiver looks": """
        SELECT id FROM sqew_message WHERE (queue_id, lane_id, priority) NOT IN (SELECT * FROM sqew_bucket)""",
    "a message of no queue": "SELECT id FROM sqew_message WHERE queue_id NOT IN (SELECT id FROM sqew_queue)",
    "a large body without its message": """
        SELECT id FROM sqew_body WHERE id NOT IN (SELECT id FROM sqew_message WHERE body IS NULL)""",
    "a message without its large body": """
        SELECT id FROM sqew_message WHERE body IS NULL AND id NOT IN (SELECT id FROM sqew_body)""",
    "a standard message that can't be claimed": """
        SELECT m.id FROM sqew_message m JOIN sqew_queue q ON q.id = m.queue_id
         WHERE m.due_at IS NULL AND NOT json_extract(q.policy, '$.fifo')""",
    "a FIFO group whose head can't be claimed": """
        SELECT m.id FROM sqew_message m JOIN sqew_queue q ON q.id = m.queue_id
         WHERE json_extract(q.policy, '$.fifo') AND m.due_at IS NULL AND m.id =
               (SELECT min(id) FROM sqew_message WHERE queue_id = m.queue_id AND group_id = m.group_id)""",
    "a message that can be claimed ahead of its FIFO group's head": """
        SELECT m.id FROM sqew_message m JOIN sqew_queue q ON q.id = m.queue_id
         WHERE json_extract(q.policy, '$.fifo') AND m.due_at IS NOT NULL AND m.id >
               (SELECT min(id) FROM sqew_message WHERE queue_id = m.queue_id AND group_id = m.group_id)""",
    "a delivery of nothing": "SELECT id FROM sqew_delivery WHERE payload_id NOT IN (SELECT id FROM sqew_payload)",
    "what is posted, with a wrong count of its deliveries": """
        SELECT id FROM sqew_payload LEFT JOIN
               (SELECT payload_id, count(*) AS count FROM sqew_delivery GROUP BY payload_id) AS counted
               ON payload_id = id
         WHERE pending <> coalesce(count, 0)""",
    "an active schedule that nobody looks at, or a paused one that somebody does": """
        SELECT id FROM sqew_schedule WHERE (status = 'active') <> (due_at IS NOT NULL)""",
    "a message both waiting and archived": "SELECT id FROM sqew_message WHERE id IN (SELECT id FROM sqew_archive)",
}

_NEVER_TRUE_OF_SQLITE = {
    "a message that was never given its id": """
        SELECT id FROM sqew_message WHERE id >= (SELECT next_id FROM sqew_meta)""",
}
_FIFO, _FIFO_IN_POSTGRES = "json_extract(q.policy, '$.fifo')", "coalesce((q.policy::json->>'fifo')::boolean, false)"


def problems_of(connection: apsw.Connection) -> list[str]:
    """Return sentences on what is wrong with a file; none if it is sound."""
    found = [f"integrity_check: {row[0]}" for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    if found or not connection.table_exists("main", "sqew_migration"):
        return found
    for sentence, query in {**_NEVER_TRUE, **_NEVER_TRUE_OF_SQLITE}.items():
        found += [f"{sentence}: {id}" for (id,) in connection.execute(query)]
    return found


def problems_of_database(ids: Callable[[str], list[int]]) -> list[str]:
    """Return what is wrong with a PostgreSQL database; ``ids`` returns the first column of all rows of a statement."""
    dialect = {sentence: query.replace(_FIFO, _FIFO_IN_POSTGRES) for sentence, query in _NEVER_TRUE.items()}
    return [f"{sentence}: {id}" for sentence, query in dialect.items() for id in ids(query)]


def rows_of(connection: apsw.Connection) -> dict[str, list[tuple[object, ...]]] | None:
    """Return everything the store keeps, to be compared; None before there is a schema."""
    if not connection.table_exists("main", "sqew_migration"):
        return None
    names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'sqew_*'").fetchall()
    return {str(name): sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for (name,) in names}
