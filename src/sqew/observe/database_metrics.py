"""How a server gets on with its database, as metrics."""

from __future__ import annotations

from collections.abc import Iterator

from sqew.model import DatabaseFigures
from sqew.observe.exposition import family, labelled


def database_lines(figures: DatabaseFigures, waiting: int) -> Iterator[str]:
    """The figures of a database, with how many operations wait to be given to it."""
    yield from family("db_up", "gauge", "1, or 0 while the database can't be reached.", [("", int(figures.is_there))])
    yield from family("db_connections_max", "gauge", "Connections that messages may use.", [("", figures.connections)])
    yield from family("db_connections_in_use", "gauge", "Connections that are busy.", [("", figures.in_use)])
    yield from family("db_connections_waited_for", "gauge", "Who waits for a connection.", [("", figures.waiting)])
    open_ = figures.idle + figures.in_use
    yield from family("db_pool_size", "gauge", "Connections that are open, idle or active.", [("", open_)])
    yield from family("db_pool_idle", "gauge", "Connections that are open and not in use.", [("", figures.idle)])
    yield from family("db_pool_active", "gauge", "Connections that are in use.", [("", figures.in_use)])
    yield from family(
        "db_pool_acquire_timeouts_total",
        "counter",
        "How often no connection was free within database_timeout_ms.",
        [("", figures.acquire_timeouts)],
    )
    yield from family("db_operations_waiting", "gauge", "Operations that wait to be begun.", [("", waiting)])
    yield from family(
        "db_refusals_total",
        "counter",
        "Operations that were refused, the server's own included: `away`, the database was; `exhausted`, no connection "
        "was free in time; `timeout`, it took longer than database_timeout_ms; `contested`, others were in the way; "
        "`full`, its disk was.",
        [
            (labelled(reason="away"), figures.refused),
            (labelled(reason="exhausted"), figures.exhausted),
            (labelled(reason="timeout"), figures.timeouts),
            (labelled(reason="contested"), figures.contested),
            (labelled(reason="full"), figures.full),
        ],
    )
    yield from family(
        "db_commits_unknown_total",
        "counter",
        "Commits that were not answered, or that no synchronous standby has confirmed.",
        [("", figures.unknown)],
    )
    yield from family(
        "db_reconnects_total",
        "counter",
        "How often the database came back after it was away.",
        [("", figures.reconnects)],
    )
    yield from family(
        "db_retries_total", "counter", "Transactions made again because of others.", [("", figures.retries)]
    )
    yield from family(
        "db_notices_total",
        "counter",
        "Wake-ups between servers; a server hears its own as well.",
        [(labelled(way="sent"), figures.notices_sent), (labelled(way="heard"), figures.notices_heard)],
    )
    yield from family(
        "db_oldest_snapshot_age_seconds",
        "gauge",
        "For how long the oldest transaction has kept PostgreSQL from removing dead rows.",
        [("", round(figures.oldest_snapshot_s, 3))],
    )
