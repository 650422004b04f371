"""Survey of all queues at once, for metrics."""

from __future__ import annotations

from collections import defaultdict

from sqew.model import Depths, LaneDepth, QueueTotals
from sqew.operations import Survey
from sqew.stores.sql.transaction import Work


def survey(work: Work, _op: Survey) -> list[QueueTotals]:
    """Return what `Measure` and `ReadActivity` (summed up) say of each queue, without a statement for each queue."""
    lanes: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for queue_id, lane_id, name in work.execute(work.sql.survey_lanes):
        lanes[queue_id][lane_id] = name
    counts, oldest = _counts(work)
    dead_letters: dict[str, int] = dict(work.execute(work.sql.survey_dead_letters).fetchall())
    archived = {(queue_id, outcome): count for queue_id, outcome, count in work.execute(work.sql.survey_archived)}
    totals = _totals(work)
    return [
        QueueTotals(
            name,
            Depths(
                lanes={lane: LaneDepth(*counts[id, lane_id]) for lane_id, lane in lanes[id].items()},
                dead=dead_letters.get(name, 0) + archived.get((id, "dead"), 0),
                archived=archived.get((id, "done"), 0),
                oldest_ready_at=oldest.get(id),
            ),
            totals[id],
        )
        for id, name in work.execute(work.sql.survey_queues).fetchall()
    ]


def _counts(work: Work) -> tuple[dict[tuple[int, int], list[int]], dict[int, int]]:
    """Count ready, delayed, leased and blocked messages by queue and lane; find when a queue's oldest became ready."""
    counts: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    oldest: dict[int, int] = {}
    for queue_id, lane_id, ready, since in work.execute(work.sql.survey_ready, (work.now,)):
        counts[queue_id, lane_id][0] = ready
        oldest[queue_id] = min(since, oldest.get(queue_id, since))
    for queue_id, lane_id, waiting, leased in work.execute(work.sql.survey_waiting, (work.now,)):
        counts[queue_id, lane_id][1:3] = waiting - leased, leased
    for queue_id, lane_id, followers, leased in work.execute(work.sql.survey_blocked, (work.now,)):
        counts[queue_id, lane_id][2] += leased
        counts[queue_id, lane_id][3] = followers - leased
    return counts, oldest


def _totals(work: Work) -> dict[int, dict[str, int]]:
    totals: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for queue_id, name, count in work.execute(work.sql.survey_activity):
        of_queue = totals[queue_id]
        of_queue[name] = of_queue.get(name, 0) + count
    return totals
