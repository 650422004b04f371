"""Metrics of a server's database."""

from __future__ import annotations

from collections.abc import Iterator

from sqew.model import DatabaseStats
from sqew.observe.exposition import family, labelled


def database_lines(stats: DatabaseStats, waiting: int) -> Iterator[str]:
    """Yield the metrics of a database, with the number of operations that wait to be given to it."""
    yield from family("db_up", "gauge", "1, or 0 while the database can't be reached.", [("", int(stats.is_there))])
    yield from family("db_connections_max", "gauge", "Connections that messages may use.", [("", stats.connections)])
    yield from family("db_connections_in_use", "gauge", "Connections that are busy.", [("", stats.in_use)])
    yield from family("db_connections_waited_for", "gauge", "Who waits for a connection.", [("", stats.waiting)])
    open_ = stats.idle + stats.in_use
    yield from family("db_pool_size", "gauge", "Connections that are open, idle or active.", [("", open_)])
    yield from family("db_pool_idle", "gauge", "Connections that are open and not in use.", [("", stats.idle)])
    yield from family("db_pool_active", "gauge", "Connections that are in use.", [("", stats.in_use)])
    yield from family(
        "db_pool_acquire_timeouts_total",
        "counter",
        "How often no connection was free within database_timeout_ms.",
        [("", stats.acquire_timeouts)],
    )
    yield from family("db_operations_waiting", "gauge", "Operations that wait to be begun.", [("", waiting)])
    yield from family(
        "db_refusals_total",
        "counter",
        "Operations that were refused, the server's own included: `away`, the database was; `exhausted`, no connection "
        "was free in time; `timeout`, it took longer than database_timeout_ms; `contested`, others were in the way; "
        "`full`, its disk was.",
        [
            (labelled(reason="away"), stats.refused),
            (labelled(reason="exhausted"), stats.exhausted),
            (labelled(reason="timeout"), stats.timeouts),
            (labelled(reason="contested"), stats.contested),
            (labelled(reason="full"), stats.full),
        ],
    )
    yield from family(
        "db_commits_unknown_total",
        "counter",
        "Commits that were not answered, or that no synchronous standby has confirmed.",
        [("", stats.unknown)],
    )
    yield from family(
        "db_reconnects_total",
        "counter",
        "How often the database came back after it was away.",
        [("", stats.reconnects)],
    )
    yield from family(
        "db_retries_total", "counter", "Transactions made again because of others.", [("", stats.retries)]
    )
    yield from family(
        "db_notices_total",
        "counter",
        "Wake-ups between servers; a server hears its own as well.",
        [(labelled(way="sent"), stats.notices_sent), (labelled(way="heard"), stats.notices_heard)],
    )
    yield from family(
        "db_oldest_snapshot_age_seconds",
        "gauge",
        "For how long the oldest transaction has kept PostgreSQL from removing dead rows.",
        [("", round(stats.oldest_snapshot_s, 3))],
    )
