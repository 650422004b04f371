"""Whole runs on the queues of others, as they are typed: small ones, by which the lab is shown to measure them."""

import zlib

import pytest
import yaml

from tests.plainbench.drivers.other_queues import rabbitmq_url, redis_url
from tests.support.postgres import new_database
from tests.support.serving import servers, shared_server

__all__ = ["servers", "shared_server"]

BLIND = """
from plainbench.drivers.base import NotOffered
from plainbench.drivers.embedded import EmbeddedDriver


class Blind(EmbeddedDriver):
    \"\"\"Shows what is in it when a run begins, and not when it ends.\"\"\"

    looks = 0

    def left(self, topic):
        Blind.looks += 1
        if Blind.looks > 1:
            raise NotOffered("It shows nothing.")
        return super().left(topic)
"""


def options_of(driver, request):
    if driver == "sqs":
        url = request.getfixturevalue("shared_server").url
        return {"endpoint_url": url, "access_key_id": "anybody", "secret_access_key": "anything"}
    if driver == "pgqueuer":
        return {"url": new_database("template0")}
    return {"url": redis_url() if driver == "redis" else rabbitmq_url()}


@pytest.fixture
def describe(request, tmp_path):
    """Return a function that writes plainbench.yaml: 200 messages for a topic of the test's own, and two workers."""

    def write(driver, topic=None, workers=None, **keys):
        topic = topic or f"t{zlib.crc32(request.node.nodeid.encode()):08x}"
        calm = {"type": "constant", "rate": 400}
        config = {
            "seed": 7,
            "target": {"driver": driver, "options": {} if ":" in driver else options_of(driver, request)},
            "sqlite": {"pragmas": {"synchronous": "NORMAL"}},
            "topics": [{"name": topic, "base_backoff_ms": 50, "fifo": topic.endswith(".fifo")}],
            "workload": [{"topic": topic, "messages": 200, "arrivals": calm, "keys": {"count": 20}}],
            "workers": [{"name": name, "lease_ms": 2_000, **(workers or {})} for name in ("one", "two")],
            "until": {"most_s": 60},
            **keys,
        }
        (tmp_path / "plainbench.yaml").write_text(yaml.safe_dump(config))

    return write


@pytest.mark.parametrize("driver", ["sqs", "redis", "rabbitmq", "pgqueuer"])
def test_a_small_run_passes(describe, plainbench, driver):
    describe(driver)

    done = plainbench("run --json")

    assert done.code == 0, done.out + done.err
    verdict = done.json["verdict"]
    assert (verdict["outcome"], verdict["ended"]) == ("passed", "settled")
    (tally,) = verdict["topics"].values()
    assert (tally["sent"], tally["done"], tally["lost"]) == (200, 200, 0)


@pytest.mark.parametrize("driver", ["sqs", "redis", "rabbitmq", "pgqueuer"])
def test_a_worker_that_dies_loses_nothing(describe, plainbench, driver):
    describe(driver, faults={"queue": {"crash": {"point": "before_commit", "calls": ["ack"], "at": [5]}}})

    done = plainbench("run --json")

    assert done.code == 0, done.out + done.err
    (tally,) = done.json["verdict"]["topics"].values()
    assert (tally["done"], tally["lost"]) == (200, 0)
    assert sum(tally["redelivered"].values()) >= 2


def test_a_fifo_queue_of_sqs_keeps_its_order(describe, plainbench):
    describe("sqs", topic="in-order.fifo")

    done = plainbench("run --json")

    assert done.code == 0, done.out + done.err
    assert done.json["verdict"]["topics"]["in-order.fifo"]["done"] == 200


def test_a_network_that_cuts_answers_off_is_put_before_any_server(describe, plainbench):
    describe("redis", faults={"network": {"reset_rate": 0.02}})

    done = plainbench("run --json")

    assert done.json["verdict"]["problems"] == [], done.out
    assert "reset" in done.out


def test_a_run_on_a_queue_that_shows_nothing_keeps_why_it_ended(describe, plainbench, tmp_path):
    (tmp_path / "blind.py").write_text(BLIND)
    describe("blind.py:Blind", workers={"work": {"type": "fixed", "ms": 100_000}}, mode="virtual", until={"most_s": 9})

    done = plainbench("run --json")

    verdict = done.json["verdict"]
    assert (verdict["outcome"], verdict["ended"], verdict["problems"]) == ("unclear", "time", [])
    assert "Nobody could look what was left in the queue: It shows nothing." in verdict["warnings"]
