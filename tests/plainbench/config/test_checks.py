"""Values that are right each on its own, and don't go together."""

import msgspec
import pytest

from plainbench.config.load import parse
from plainbench.config.model import Target
from sqew.errors import BadValue

TOPICS = "topics:\n  - name: orders\n    lanes: [{name: high, weight: 3}, {name: low}]\n"


@pytest.fixture
def complaint(tmp_path):
    """Return a function that returns the sentence that refuses a file's content, without the folder in it."""

    def complain(text):
        with pytest.raises(BadValue) as refused:
            parse(text, tmp_path / "plainbench.yaml")
        return str(refused.value).replace(f"{tmp_path}/", "").removeprefix("plainbench.yaml, ")

    return complain


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("workload:\n  - topic: order\n    messages: 1\n",
         ("line 5: workload[0].topic: there is no topic 'order' (did you mean 'orders'?). "
          "Those under 'topics' are: orders.")),
        ("workload:\n  - topic: orders\n    messages: 1\n    lanes: {hihg: 1}\n",
         ("line 7: workload[0].lanes: topic 'orders' has no lane 'hihg' (did you mean 'high'?). "
          "Its lanes are: high, low.")),
        ("workload:\n  - topic: orders\n    messages: 1\n    lanes: {high: 0}\n",
         "line 7: workload[0].lanes can't all be 0: nothing could be sent."),
        ("workload:\n  - topic: orders\n    messages: 1\n    priorities: {1: 0, 2: 0}\n",
         "line 7: workload[0].priorities can't all be 0: nothing could be sent."),
        ("workload:\n  - topic: orders\n",
         "line 5: workload[0] would never end: give 'messages', 'for_s' or 'input'."),
        ("workload: [{topic: orders, messages: 1000000000}]\n",
         "line 4: workload[0].messages can't be 1000000000: 999999999 are the most."),
        ("workload: [{topic: orders, messages: 1, size: {min: 5, max: 3}}]\n",
         "line 4: workload[0].size.max can't be 3: it must be min (5) at least."),
        ("workload: [{topic: orders, messages: 1, keys: {field: id}}]\n",
         "line 4: workload[0].keys.field names a field of 'input', and there is none: leave it out."),
        ("workload: [{topic: orders, messages: 1, arrivals: {type: closed}, late_ms: 3}]\n",
         ("line 4: workload[0].late_ms needs arrivals with a time, such as constant or poisson: "
          "of others none can be late.")),
        ("workload: [{topic: orders, messages: 1, arrivals: {type: closed}, senders: 3}]\n",
         "line 4: workload[0].senders is for an open loop: in a closed one set arrivals.clients."),
        ("workers: [{name: a}, {name: a}]\n",
         "line 4: there is a worker 'a' already: each needs a name of its own."),
        ("workers: [{name: a/b}]\n",
         "line 4: workers[0].name can't be 'a/b': a slash comes between a worker and its slot."),
        ("workers: [{name: a, topics: [ordres]}]\n",
         ("line 4: workers[0].topics: there is no topic 'ordres' (did you mean 'orders'?). "
          "Those under 'topics' are: orders.")),
        ("workers: [{name: a, cmd: [x], call: y:z}]\n",
         "line 4: workers[0] has both 'cmd' and 'call': it runs a command or a function, so leave one out."),
        ("workers: [{name: a, call: process}]\n",
         "line 4: workers[0].call can't be 'process': it must be module:function or file.py:function."),
        ("workers: [{name: a, work: {type: uniform, min_ms: 3, max_ms: 2}}]\n",
         "line 4: workers[0].work.max_ms can't be 2: it must be min_ms (3) at least."),
        ("faults: {queue: {latency: {type: p95_spike, base_ms: 30, p95_ms: 2}}}\n",
         "line 4: faults.queue.latency.p95_ms can't be 2: it must be base_ms (30) at least."),
        ("faults: {db: {error_rate: 0.1, errors: {transient: 0}}}\n",
         "line 4: faults.db.errors can't all be 0 while error_rate is 0.1."),
        ("faults: {queue: {crash: {point: before_commit}}}\n",
         "line 4: faults.queue.crash never happens: give 'rate', or 'at' with numbers of calls."),
        ("workers: [{name: generator-0}]\n",
         "line 4: workers[0].name can't be 'generator-0': the lab calls itself so. Choose another one."),
        ("workers: [{name: supervisor}]\n",
         "line 4: workers[0].name can't be 'supervisor': the lab calls itself so. Choose another one."),
        ("target:\n  driver: sqew-http\n  options:\n    urll: x\n",
         ("line 7: target.options: the driver sqew-http has no option 'urll' (did you mean 'url'?). "
          "It has: url, token, database_url, durability.")),
        ("target: {driver: 'none.py:Own'}\n",
         "line 4: target.driver: none.py:Own can't be found: there is no file none.py."),
        ("faults:\n  network: {reset_rate: 0.1}\n",
         "line 5: faults.network is for a server that has a URL: give target.options.url."),
        ("target: {driver: sqs}\nfaults:\n  network: {reset_rate: 0.1}\n",
         "line 6: faults.network is for a server that has a URL: give target.options.endpoint_url."),
        ("target: {driver: sqew-http}\nmode: virtual\n",
         "line 5: the driver sqew-http can't run in virtual time. Use mode: real."),
        ("target:\n  driver: rabitmq\n",
         ("line 5: there is no driver 'rabitmq' (did you mean 'rabbitmq'?). "
          "There are: sqew, sqew-http, sqs, redis, rabbitmq, pgqueuer; or module:Class of your own.")),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_told_with_its_line(complaint, text, sentence):
    assert complaint(TOPICS + text) == sentence


def test_a_run_needs_a_topic(complaint):
    assert complaint("seed: 1\n") == "line 1: there is no topic: name one under 'topics', with its lanes."


def test_two_topics_of_one_name_are_refused(complaint):
    assert "line 2: there is a topic 'a' already" in complaint("topics: [{name: a},\n  {name: a}]\n")


def test_two_lanes_of_one_name_are_refused(complaint):
    assert "there is a lane 'x' already" in complaint("topics: [{name: a, lanes: [{name: x}, {name: x}]}]\n")


def test_a_name_that_the_queue_would_not_take_is_refused(complaint):
    assert "can't be a queue's name" in complaint("topics: [{name: 'a b'}]\n")


def test_a_fifo_topic_of_ours_is_named_as_one(complaint):
    assert "'.fifo'" in complaint("topics: [{name: orders, fifo: true}]\n")


@pytest.mark.parametrize(
    ("how", "key"),
    [("senders: 2", "senders"), ("arrivals: {type: closed, clients: 2}", "arrivals.clients")],
)
def test_several_senders_of_a_fifo_topic_are_refused(complaint, how, key):
    said = complaint(f"topics: [{{name: a.fifo, fifo: true}}]\nworkload: [{{topic: a.fifo, messages: 9, {how}}}]\n")

    assert said.startswith(f"line 2: workload[0].{key} must be 1: of what several send at once nobody can say")


def test_other_queues_may_name_their_topics_as_they_like(tmp_path):
    config = parse("target: {driver: redis}\ntopics: [{name: 'a:b', fifo: true}]\n", tmp_path / "plainbench.yaml")

    assert config.topics[0].fifo


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("workload: [{topic: orders, input: none-*.jsonl}]\n", "workload[0].input: No file matches 'none-*.jsonl'"),
        ("workload: [{topic: orders, input: none.jsonl}]\n", "workload[0].input: There is no file none.jsonl"),
        ("sqlite: {app_fixtures: [none.sql]}\n", "sqlite.app_fixtures: there is no file none.sql."),
        ("workload: [{topic: orders, input: []}]\n", "workload[0].input names no file"),
        ("workload: [{topic: orders, arrivals: {type: recorded, file: none.txt}}]\n",
         "workload[0].arrivals.file: The recorded arrivals none.txt can't be read"),
        ("workers: [{name: a, work: {type: histogram, file: none.json}}]\n",
         "workers[0].work.file: The histogram none.json can't be read"),
    ],
)  # fmt: skip
def test_files_that_are_not_there_are_told_before_anything_runs(complaint, text, key):
    assert complaint(TOPICS + text).startswith(f"line 4: {key}")


def test_a_secret_of_the_environment_is_known_to_the_driver_and_to_no_file(monkeypatch):
    monkeypatch.setenv("QUEUE_TOKEN", "open sesame")
    target = Target("sqew-http", {"token": "$QUEUE_TOKEN"})

    assert target.opened() == {"token": "open sesame"}
    assert b"sesame" not in msgspec.json.encode(target)


def test_a_secret_that_the_environment_does_not_have_is_named(monkeypatch):
    monkeypatch.delenv("QUEUE_TOKEN", raising=False)

    with pytest.raises(BadValue, match="the environment has no QUEUE_TOKEN"):
        Target("sqew-http", {"token": "$QUEUE_TOKEN"}).opened()
