"""The verdict: did the queue keep its promises? What came out is compared with what went in, message by message.

Only certain breaches count: never a send without an answer, an ack that a dead worker may have made, or a call that was
under way when another ended. So a problem that is reported is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import Struct

from plainbench.config.model import Config
from plainbench.faults.unfired import unfired
from plainbench.verdict import fairness, order, read_log, redeliveries
from plainbench.verdict import log_columns as logs
from plainbench.verdict.fairness import LaneShare
from plainbench.verdict.log_columns import LEFT, NEVER, SENT, UNSENT, UNSURE, Flags, Log, Numbers, numbers_of, topics_of
from plainbench.verdict.messages import Messages
from plainbench.verdict.redeliveries import Redeliveries

_EXAMPLES = 5
_WHOLE = frozenset({"settled", "idle", "time", "interrupted", "failed"})
"""The ends of a run at which the messages left in the queue were recorded."""


class Problem(Struct, frozen=True):
    """A promise that was not kept."""

    kind: Literal[
        "lost",
        "unexpected",
        "delivered after ack",
        "delivered twice",
        "acked but kept",
        "order",
        "starved",
        "changed",
        "stuck",
    ]
    topic: str
    count: int
    sentence: str
    examples: list[int] = []  # msgspec copies it
    """Numbers of some of the messages, to look for in the log."""


class Tally(Struct, frozen=True):
    """The fates of a topic's messages. Those ``sent`` and ``found`` are done, dead, left, lost or unaccounted for."""

    sent: int = 0
    found: int = 0
    """Messages that were in the queue before, dead letters not counted."""
    unsent: int = 0
    """Messages that the queue refused to the end."""
    unsure: int = 0
    """Messages whose send got no answer …"""
    recovered: int = 0
    """… and those of them that are in the queue or came out."""
    dropped: int = 0
    """Messages for which the generator was too late."""
    deliveries: int = 0
    done: int = 0
    """Acked."""
    done_unheard: int = 0
    """Messages that are gone without a known ack: the worker that had them died, or got no answer."""
    dead: int = 0
    left: int = 0
    """Still in the queue: neither done nor lost."""
    left_in: dict[str, int] = {}  # msgspec copies it
    unaccounted: int = 0
    """Messages that are not done, while the messages left in the queue could not be read."""
    lost: int = 0
    unexpected: int = 0
    after_ack: int = 0
    while_leased: int = 0
    kept_after_ack: int = 0
    changed: int = 0
    out_of_order: int = 0
    redelivered: dict[str, int] = {}
    """Further deliveries that have a good reason, by reason."""
    retried: int = 0
    refused: int = 0


class Verdict(Struct, frozen=True):
    """A verdict: ``passed``; ``failed``: at least one promise was broken; ``unclear``: the evidence is not enough."""

    outcome: Literal["passed", "failed", "unclear"]
    ended: str
    """The end of the run: settled; or idle, time, interrupted, failed; empty: the lab itself was killed."""
    problems: list[Problem]
    warnings: list[str]
    topics: dict[str, Tally]
    lanes: list[LaneShare]

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


class Evidence:
    """A run's log, with the fate of each message and the cause of each redelivery."""

    def __init__(self, config: Config, log: Log) -> None:
        self.config, self.log = config, log
        self.messages = Messages(log, {worker.name: worker.lease_ms * 1000 for worker in config.workers})
        self.redeliveries = Redeliveries(log, self.messages, is_virtual=config.mode == "virtual")
        self.ended_us = max(log.ended_us, int(log.handled["at"].max(initial=0)), int(log.sends["at"].max(initial=0)))


def evidence(run: Path, config: Config, *, progress: Callable[[int], None] = lambda _events: None) -> Evidence:
    """Read a run's log. ``progress`` is called with the number of events read."""
    return Evidence(config, read_log.read(run, progress=progress))


def judge(run: Path, config: Config) -> Verdict:
    """Return the verdict on a run."""
    return judge_evidence(evidence(run, config))


def judge_evidence(known: Evidence) -> Verdict:
    """Return the verdict on a log that was read before."""
    return _Court(known).verdict()


class _Court:
    def __init__(self, known: Evidence) -> None:
        self._config, self._log, self._messages = known.config, known.log, known.messages
        self._again, self._ended_us = known.redeliveries, known.ended_us
        self._could_look = self._log.ended in _WHOLE and not self._log.left_unknown
        self._policies = {topic.name: topic for topic in self._config.topics}
        self._problems: list[Problem] = []
        self._doubts: list[str] = []
        """Reasons why the verdict is unclear."""

    def verdict(self) -> Verdict:
        log, messages = self._log, self._messages
        fates = _Fates(messages, self._most_attempts(), self._could_look, log.shows_dead)
        fifo = {log.topics[name] for name, topic in self._policies.items() if topic.fifo and name in log.topics}
        overtakers = order.overtakers(messages, fifo)
        names = [*self._policies, *(name for name in log.topics if name and name not in self._policies)]
        tallies = {name: self._tally(name, fates, overtakers) for name in names}
        lanes = self._lanes()
        self._doubts = [*self._stuck(tallies), *_nothing(tallies)]
        problems = self._problems
        unclear = any(tally.unaccounted for tally in tallies.values()) or len(messages.both)
        # The lab was killed, or could not go on.
        unclear = unclear or log.ended in ("", "failed") or bool(self._doubts)
        return Verdict(
            "failed" if problems else "unclear" if unclear else "passed",
            log.ended, problems, self._warnings(tallies), tallies, lanes,
        )  # fmt: skip

    def _most_attempts(self) -> Numbers:
        """Return, by topic, the number of deliveries after which the queue itself gives a message up."""
        most = [self._policies[name].max_attempts if name in self._policies else None for name in self._log.topics]
        return np.array([NEVER if one is None else one for one in most] or [NEVER], np.int64)

    def _tally(self, topic: str, fates: _Fates, overtakers: Numbers) -> Tally:
        log, messages, deliveries = self._log, self._messages, self._messages.deliveries
        code = log.topics.get(topic, -1)
        mine, came = topics_of(messages.key) == code, topics_of(deliveries.key) == code
        again = self._again.rows[came[self._again.rows]]
        causes = self._again.cause[came[self._again.rows]]
        expected = mine & ~messages.was_dead
        report = self._report
        unsure = mine & (messages.outcome == UNSURE)
        ends = deliveries.end[came]
        return Tally(
            sent=_count(mine & (messages.outcome == SENT) & ~messages.is_found),
            found=_count(expected & messages.is_found),
            unsent=_count(mine & (messages.outcome == UNSENT)),
            unsure=_count(unsure),
            recovered=_count(unsure & ((messages.count > 0) | messages.is_left)),
            dropped=log.dropped[topic],
            deliveries=_count(came),
            done=_count(expected & (messages.acked_at < NEVER)),
            done_unheard=_count(expected & fates.done_unheard),
            dead=_count(expected & fates.dead),
            left=_count(expected & messages.is_left & ~messages.left_dead),
            left_in=self._left_in(code),
            unaccounted=_count(expected & fates.unaccounted),
            lost=report("lost", topic, messages.key[expected & fates.lost]),
            unexpected=report("unexpected", topic, np.unique(deliveries.key[came & (messages.of_delivery < 0)])),
            after_ack=report(
                "delivered after ack", topic,
                deliveries.key[again[np.isin(causes, (redeliveries.AFTER_ACK, redeliveries.AFTER_DEATH))]],
            ),
            while_leased=report("delivered twice", topic, deliveries.key[again[causes == redeliveries.EARLY]]),
            kept_after_ack=report(
                "acked but kept", topic, messages.key[expected & (messages.acked_at < NEVER) & messages.is_left]
            ),
            changed=report("changed", topic, np.unique(deliveries.key[came & messages.changed])),
            out_of_order=report("order", topic, overtakers[topics_of(overtakers) == code]),
            redelivered={
                name: count for cause, name in redeliveries.CAUSES.items() if (count := _count(causes == cause))
            },
            retried=_count(ends == logs.RETRIED),
            refused=_count(np.isin(ends, (logs.REFUSED, logs.UNANSWERED))),
        )  # fmt: skip

    def _left_in(self, topic: int) -> dict[str, int]:
        places = self._log.places
        where = places["where"][(places["kind"] == LEFT) & (places["topic"] == topic)]
        return {name: count for name, code in self._log.wheres.items() if (count := _count(where == code))}

    def _report(self, kind: str, topic: str, keys: Numbers) -> int:
        if len(keys):
            examples = numbers_of(keys[:_EXAMPLES]).tolist()
            sentence = _SENTENCES[kind].format(n=len(keys), topic=topic)
            self._problems.append(Problem(kind, topic, len(keys), sentence, examples))  # type: ignore[arg-type]
        return len(keys)

    def _stuck(self, tallies: Mapping[str, Tally]) -> Iterator[str]:
        """Report messages that were ready and never came though workers asked for them; yield why that is unclear."""
        for topic, tally in tallies.items():
            ready = sum(count for (of, _), count in self._log.ready.items() if of == topic)
            waiting = min(ready, tally.left_in.get("ready", 0))
            if self._log.ended == "idle" and waiting:
                if doubt := self._why_nobody_asked(topic):
                    yield f"{waiting} messages of {topic} were ready to the end, and {doubt}."
                else:
                    sentence = _SENTENCES["stuck"].format(n=waiting, topic=topic)
                    self._problems.append(Problem("stuck", topic, waiting, sentence))
            elif self._log.ended == "time" and tally.sent + tally.found and not tally.deliveries:
                yield f"No message of {topic} came out in the time that there was (until.most_s)."

    def _why_nobody_asked(self, topic: str) -> str | None:
        workers = [worker for worker in self._config.workers if not worker.topics or topic in worker.topics]
        if not workers:
            return "no worker receives from there"
        if self._log.hindered_us >= max(0, self._ended_us - self._config.until.idle_s * 1e6):
            return "faults kept workers from receiving them"
        deliveries = self._messages.deliveries
        is_open = (deliveries.end_at == NEVER) & (deliveries.died_at == NEVER)
        names = list(self._log.workers)
        busy = {names[code] for code in np.unique(deliveries.worker[is_open]).tolist()}
        alive = {event.worker: event.what != "died" for event in self._log.worker_reports}
        for worker in workers:
            slots = [f"{worker.name}/{slot}" for slot in range(worker.concurrency)]
            if any(slot not in busy and alive.get(worker.name, True) and alive.get(slot, True) for slot in slots):
                return None
        return "all workers were dead, or busy with others"

    def _lanes(self) -> list[LaneShare]:
        weights = {name: {lane.name: lane.weight for lane in topic.lanes} for name, topic in self._policies.items()}
        batch = max((worker.prefetch for worker in self._config.workers), default=1)
        lanes = fairness.shares(self._log, self._messages, weights, batch, self._ended_us)
        for lane in lanes:
            if lane.has_starved:
                sentence = (
                    f"Lane {lane.lane} of topic {lane.topic} had messages waiting and got nothing for "
                    f"{lane.starved_ms:.0f} ms, while other lanes got {lane.passed_over} messages."
                )
                self._problems.append(Problem("starved", lane.topic, 1, sentence))
        return lanes

    def _warnings(self, tallies: Mapping[str, Tally]) -> list[str]:
        log = self._log
        sentences = [_ENDS[log.ended].format(reason=log.reason)] if log.ended in _ENDS else []
        if log.left_unknown:
            sentences.append(f"Nobody could look what was left in the queue: {log.reason}")
        if (left := sum(tally.left for tally in tallies.values())) and log.ended != "settled":
            sentences.append(f"{left} messages were still in the queue at the end: neither done nor lost.")
        for topic, tally in tallies.items():
            if tally.unaccounted:
                sentences.append(f"{tally.unaccounted} messages of {topic} are neither done nor known to be left.")
            if tally.dropped:
                sentences.append(
                    f"The generator dropped {tally.dropped} messages of {topic}, for which it was too late."
                )
            if tally.unsent:
                sentences.append(f"{tally.unsent} messages of {topic} were refused by the queue until the run ended.")
        if len(self._messages.both):
            sentences.append(
                f"{len(self._messages.both)} messages of an earlier run were in the queue, with the same numbers as "
                "messages of this one: use a new queue, or empty it first."
            )
        return [*sentences, *self._doubts, *unfired(self._config, log.fired)]


class _Fates:
    """The fate of each message that was not plainly acked."""

    def __init__(self, messages: Messages, most_attempts: Numbers, could_look: bool, shows_dead: bool) -> None:
        known = (messages.outcome == SENT) | (messages.count > 0)
        acked, gone = messages.acked_at < NEVER, ~messages.is_left
        # Where the dead letters can be seen, what is dead is among them.
        unseen = not (could_look and shows_dead)
        self.dead: Flags = ~acked & (messages.left_dead | ((messages.died_at < NEVER) & gone & unseen))
        open_ = known & ~acked & ~self.dead & gone
        spent = messages.attempts >= most_attempts[topics_of(messages.key)]
        unheard = open_ & messages.maybe_acked
        given_up = open_ & ~unheard & spent & (messages.count > 0) & unseen
        self.dead |= given_up & could_look
        missing = open_ & ~unheard & ~(given_up & could_look)
        self.done_unheard: Flags = unheard & could_look
        self.lost: Flags = missing & could_look
        self.unaccounted: Flags = (open_ if not could_look else np.zeros(len(open_), bool)) & ~messages.was_dead


def _nothing(tallies: Mapping[str, Tally]) -> Iterator[str]:
    """Yield a doubt if the queue was asked for nothing: then it broke no promise, and kept none."""
    if not any(tally.sent + tally.found + tally.deliveries for tally in tallies.values()):
        yield "Nothing was stored, and nothing was in the queue before: there is nothing to judge."


def _count(flags: Flags) -> int:
    return int(np.count_nonzero(flags))


_SENTENCES = {
    "lost": "{n} messages of {topic} were stored, and neither came out nor are they still there.",
    "unexpected": "{n} messages came out of {topic} that nobody has sent.",
    "delivered after ack": "{n} deliveries of {topic} came after the message's end was confirmed.",
    "delivered twice": "{n} deliveries of {topic} came while another worker held the message.",
    "acked but kept": "{n} messages of {topic} are still in the queue though their ack was confirmed.",
    "changed": "{n} messages of {topic} came out with another body, lane or group than they were sent with.",
    "stuck": "{n} messages of {topic} were ready, and did not come though workers asked for them (until.idle_s).",
    "order": "{n} messages of {topic} came out before an earlier one of their group.",
}
_ENDS = {
    "": "The run has no end: the lab was killed. Nobody could look what was left in the queue.",
    "idle": "The run was ended because nothing was received any more (until.idle_s), though not everything was done.",
    "time": "The run was ended because its time was over (until.most_s), though not everything was done.",
    "interrupted": "The run was interrupted.",
    "failed": "The run could not go on. {reason}",
}
