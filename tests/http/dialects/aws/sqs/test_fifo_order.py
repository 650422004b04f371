"""FIFO order through SQS while consumers compete, give up, change visibility, and the server is killed.

Per group: deletions happen in the order of the sends, nothing is lost, and no message is delivered while an earlier one
of its group is in flight.
"""

import http.client
import json
import signal
import threading
import time
from itertools import count
from random import Random

import pytest

from tests.http.dialects.aws.sqs.fifo_history import Deletion, History, Holding, Message
from tests.http.dialects.aws.sqs_wires import AUTHORIZATION
from tests.support.serving import serving

SEED = 20_261
GROUPS = [f"g{n}" for n in range(6)]
PRODUCERS, CONSUMERS, KILLS = 2, 5, 4
BETWEEN_KILLS_S, SENDS_PER_LIFE = 3.0, 50
ENOUGH_WITHIN_S, DRAIN_S = 60.0, 60.0
CLOCK_S = 0.02
"""Seconds by which times may differ: the server counts in milliseconds, and its clock need not be the test's."""
QUEUE = "order.fifo"
CALLS = count()


class Lost(Exception):
    """A lost answer: the outcome of the call is unknown."""


class Player(threading.Thread):
    """A client thread with a connection to the server that is alive at the moment."""

    def __init__(self, name, stage):
        super().__init__(name=name)
        self.stage, self.random = stage, Random(f"{SEED}-{name}")
        self._connection, self._to = None, None
        self.failure = None

    def run(self):
        try:
            while self.goes_on():
                try:
                    self.turn()
                except Lost:
                    time.sleep(0.01)
        except Exception as error:  # noqa: BLE001 (a thread's failure would be seen by nobody)
            self.failure = error
        finally:
            self._hang_up()

    def ask(self, action, **parameters):
        """Return an answer, or raise `Lost`. A refusal is an answer too: its type."""
        server = self.stage.server
        if server is None:
            raise Lost
        if self._to is not server:
            self._hang_up()
            self._connection, self._to = http.client.HTTPConnection(server.host, server.port, timeout=10), server
        headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
        try:
            body = json.dumps({"QueueUrl": QUEUE, **parameters})
            self._connection.request("POST", "/", body, {**headers, "Authorization": AUTHORIZATION})
            response = self._connection.getresponse()
            answer = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._hang_up()
            raise Lost from error
        assert response.status < 500, answer
        return answer

    def _hang_up(self):
        if self._connection is not None:
            self._connection.close()
        self._connection = self._to = None


class Producer(Player):
    """A thread that sends to its own groups, one message after the other: a send whose answer is lost is repeated."""

    def __init__(self, name, stage, groups):
        super().__init__(name, stage)
        self._next = dict.fromkeys(groups, 0)
        self._pending = []

    def goes_on(self):
        return not self.stage.is_over.is_set() or self._pending

    def turn(self):
        if not self._pending:
            self._pending = [self._new() for _ in range(self.random.randint(1, 6))]
        if len(self._pending) == 1:
            answer = self.ask("SendMessage", **_parameters(self._pending[0]))
            assert "MessageId" in answer, answer
        else:
            entries = [{"Id": str(n), **_parameters(message)} for n, message in enumerate(self._pending)]
            answer = self.ask("SendMessageBatch", Entries=entries)
            assert len(answer["Successful"]) == len(entries), answer
        self.stage.history.sent += self._pending
        self._pending = []
        time.sleep(self.random.random() * 0.05)

    def _new(self):
        group = self.random.choice(list(self._next))
        self._next[group] += 1
        return Message(group, self._next[group])


def _parameters(message):
    text = json.dumps(message)
    return {"MessageBody": text, "MessageGroupId": message.group, "MessageDeduplicationId": text.replace(" ", "")}


class Consumer(Player):
    """A thread that receives, and deletes in order, or gives up the rest of a group in one of the ways consumers do."""

    attempt = None

    def goes_on(self):
        return not self.stage.is_drained.is_set()

    def turn(self):
        visibility = 2 if self.stage.is_over.is_set() else self.random.choice((1, 1, 2))
        parameters = {"MaxNumberOfMessages": self.random.randint(1, 10), "VisibilityTimeout": visibility}
        # A receive whose answer was lost is repeated under its name.
        self.attempt = self.attempt or f"{self.name}-{next(CALLS)}"
        asked_at = time.monotonic()
        answer = self.ask("ReceiveMessage", **parameters, WaitTimeSeconds=1, ReceiveRequestAttemptId=self.attempt)
        told_at, call, self.attempt = time.monotonic(), next(CALLS), None
        held = []
        for received in answer.get("Messages", []):
            message = Message(*json.loads(received["Body"]))
            holding = Holding(message, asked_at, told_at, asked_at + visibility - CLOCK_S, call)
            held.append((received["ReceiptHandle"], holding))
        self.stage.history.holdings += [holding for _, holding in held]
        for group in dict.fromkeys(holding.message.group for _, holding in held):
            self._work([one for one in held if one[1].message.group == group])

    def _work(self, held):
        while held:
            chance = self.random.random()
            if self.stage.is_over.is_set() or chance < 0.6:
                self._remove(held[:1])
                held = held[1:]
            elif chance < 0.75:
                self._remove(held)
                return
            elif chance < 0.82:
                self._change(held, 0)
                return
            elif chance < 0.88:
                self._change(held, 2)
            elif chance < 0.92:
                time.sleep(self.random.choice((0.2, 1.1)))
            else:
                return  # It forgets them: they come again when their time is over.

    def _remove(self, held):
        asked_at = time.monotonic()
        for _, holding in held:
            holding.until = min(holding.until, asked_at)
        entries = [{"Id": str(n), "ReceiptHandle": handle} for n, (handle, _) in enumerate(held)]
        deleted, is_certain = [], True
        try:
            if len(held) == 1:
                answer = self.ask("DeleteMessage", ReceiptHandle=held[0][0])
                deleted = [] if "__type" in answer else held
            else:
                answer = self.ask("DeleteMessageBatch", Entries=entries)
                deleted = [held[int(entry["Id"])] for entry in answer["Successful"]]
        except Lost:
            deleted, is_certain = held, False
            raise
        finally:
            told_at = time.monotonic()
            self.stage.history.deletions += [
                Deletion(holding.message, asked_at, told_at, is_certain) for _, holding in deleted
            ]

    def _change(self, held, seconds):
        """Release them, the last first, so that none is ready before its predecessors; or extend their leases."""
        for handle, holding in reversed(held):
            asked_at = time.monotonic()
            holding.until = min(holding.until, asked_at) if seconds == 0 else min(holding.until, asked_at + seconds)
            self.ask("ChangeMessageVisibility", ReceiptHandle=handle, VisibilityTimeout=seconds)


class Stage:
    """The server, while one is alive, and the history so far."""

    def __init__(self):
        self.server = None
        self.history = History()
        self.is_over, self.is_drained = threading.Event(), threading.Event()

    def remaining(self):
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = self._ask("GetQueueAttributes", {"QueueUrl": QUEUE, "AttributeNames": names})["Attributes"]
        return sum(map(int, counts.values()))

    def make_queue(self):
        self._ask("CreateQueue", {"QueueName": QUEUE, "Attributes": {"FifoQueue": "true"}})

    def _ask(self, action, parameters):
        headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
        answer = self.server.call("POST", "/", parameters, {**headers, "Authorization": AUTHORIZATION})
        assert answer.status == 200, answer.body
        return answer.json


def plays_on(stage, life):
    """Wait until so many lives have had enough in them: sends, and messages that came again."""
    history, deadline = stage.history, time.monotonic() + ENOUGH_WITHIN_S
    time.sleep(BETWEEN_KILLS_S)
    while len(history.sent) <= SENDS_PER_LIFE * (life + 1) or not history.came_again():
        assert time.monotonic() < deadline, history.counts()
        time.sleep(0.05)


def play(stage, folder):
    players = [Producer(f"producer{n}", stage, GROUPS[n::PRODUCERS]) for n in range(PRODUCERS)]
    players += [Consumer(f"consumer{n}", stage) for n in range(CONSUMERS)]
    for life in range(KILLS + 1):
        with serving(folder, "--durability", "fast", db=folder / "queue.db") as stage.server:
            stage.make_queue()
            if life == 0:
                for player in players:
                    player.start()
            if life < KILLS:
                plays_on(stage, life)
                stage.server.stop(signal.SIGKILL)
                stage.server = None
                continue
            stage.is_over.set()
            for player in players[:PRODUCERS]:
                player.join(DRAIN_S)
            deadline = time.monotonic() + DRAIN_S
            while stage.remaining() and time.monotonic() < deadline:
                time.sleep(0.05)
            stage.is_drained.set()
            for player in players:
                player.join(DRAIN_S)
    return [player.failure for player in players if player.failure is not None]


def test_groups_keep_their_order_while_consumers_compete_and_the_server_is_killed(tmp_path):
    stage = Stage()

    failures = play(stage, tmp_path)

    assert failures == []
    assert stage.history.problems() == []
    # Otherwise it would say nothing.
    assert len(stage.history.sent) > SENDS_PER_LIFE * KILLS, stage.history.counts()
    assert len(stage.history.holdings) > len(stage.history.sent), stage.history.counts()
    assert {message.group for message in stage.history.sent} == set(GROUPS)


A1, A2, B1 = Message("a", 1), Message("a", 2), Message("b", 1)


def lived(*messages):
    """Return a history in which messages were sent, and deleted one after the other."""
    deletions = [Deletion(message, n, n + 0.5, is_certain=True) for n, message in enumerate(messages)]
    return History([*messages], [], deletions)


def test_the_judge_finds_nothing_wrong_with_order():
    history = lived(A1, B1, A2)
    history.holdings = [Holding(A1, 0, 1, 3, 1), Holding(A2, 0, 1, 3, 1), Holding(B1, 1.5, 2, 4, 2)]

    assert history.problems() == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda history: history.deletions.pop(), "nobody has deleted it"),
        (lambda history: history.sent.remove(A1), "nobody has sent it"),
        (lambda history: history.deletions.reverse() or history.deletions.__setitem__(
            slice(None), lived(A2, A1).deletions), "was deleted before"),
        (lambda history: history.holdings.append(Holding(A2, 1.2, 1.4, 9, 2)), "while Message(group='a', number=1)"),
        (lambda history: history.holdings.append(Holding(A1, 1.2, 1.4, 9, 2)), "while Message(group='a', number=1)"),
    ],
    ids=["lost", "unsent", "out of order", "too early", "twice at a time"],
)  # fmt: skip
def test_the_judge_finds_what_must_not_be(change, problem):
    history = lived(A1, A2)
    history.holdings = [Holding(A1, 0, 1, 3, 1)]
    change(history)

    assert any(problem in found for found in history.problems())
