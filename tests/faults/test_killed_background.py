"""Servers that end in the middle of deliveries and fires: every slot once, every event to every endpoint."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from serving import Serving, serving

sys.path.append(str(Path(__file__).parents[1] / "deliveries"))

from endpoint import Hook, endpoint, stalls
from newsroom import FLAGS, SECOND, Newsroom, Press

KILLS = 30
STOPS = 4


@pytest.fixture
def hook() -> Iterator[Hook]:
    with endpoint() as running:
        yield running


@pytest.fixture
def newsroom(tmp_path: Path, hook: Hook) -> Iterator[Newsroom]:
    room = Newsroom(tmp_path, hook)
    yield room
    room.close()


def until_it_is_at_work(newsroom: Newsroom, random: Random) -> None:
    """Wait for something to arrive, and a little; every other time for the moment when schedules fire."""
    so_far = len(newsroom.hook.received())
    newsroom.hook.wait_for_any(so_far + random.randint(1, 30), within=30)
    if random.random() < 0.5:
        time.sleep(1 - time.time() % 1)
    time.sleep(random.uniform(0, 0.05))


def kill_and_judge(folder: Path, newsroom: Newsroom, kills: int, seed: int) -> list[str]:
    random, press = Random(seed), Press(newsroom, seed)
    with ExitStack() as servers:

        def start() -> Serving:
            return servers.enter_context(serving(folder, *FLAGS, "--durability", random.choice(("durable", "fast"))))

        alive = [start(), start()]
        press.start()
        for _ in range(kills):
            until_it_is_at_work(newsroom, random)
            victim = random.randrange(2)
            assert alive[victim].stop(signal.SIGKILL) == -signal.SIGKILL
            assert "Traceback" not in alive[victim].log.read_text()
            assert newsroom.inconsistencies() == []
            alive[victim] = start()
        press.end()
        newsroom.wait_until_all_is_done()
        assert [server.stop() for server in alive] == [0, 0]
    return newsroom.problems(press.published)


def test_servers_that_are_killed_fire_every_slot_once_and_deliver_every_event(tmp_path, newsroom, capsys):
    problems = kill_and_judge(tmp_path, newsroom, KILLS, seed=1)

    twice, slots = newsroom.posted_twice(), sum(schedule.fired for schedule in newsroom.schedules())
    with capsys.disabled():
        print(f"\n{KILLS} kills: {len(newsroom.hook.received())} posts ({twice} again), {slots} slots")  # noqa: T201
    assert problems == []
    # Otherwise the kills fell where nothing was at stake.
    assert twice
    assert slots > 10 * KILLS


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 7))
def test_hundreds_of_kills_lose_no_slot_and_no_event(tmp_path, newsroom, seed):
    assert kill_and_judge(tmp_path, newsroom, 100, seed) == []


def test_a_server_that_is_told_to_stop_gives_back_what_it_has_begun(tmp_path, newsroom):
    random, press = Random(1), Press(newsroom, seed=1)
    given_back, took_s = [], []
    newsroom.hook.does("/slow", stalls)
    press.start()
    for _ in range(STOPS):
        with serving(tmp_path, *FLAGS, "--drain-ms", "200") as server:
            until_it_is_at_work(newsroom, random)
            newsroom.hook.wait_for("/slow", len(newsroom.hook.received("/slow")) + 1)
            began = time.monotonic()
            assert server.stop() == 0
            took_s.append(time.monotonic() - began)
        # Somebody else could have them now, and not only when a claim has run out.
        given_back += newsroom.deliveries("delivering")
    newsroom.hook.does("/slow")
    with serving(tmp_path, *FLAGS) as server:
        press.end()
        newsroom.wait_until_all_is_done()
        assert server.stop() == 0

    assert given_back == []
    assert max(took_s) < 5
    assert newsroom.problems(press.published) == []


def test_two_servers_fire_every_slot_once(tmp_path, newsroom):
    with serving(tmp_path, *FLAGS) as one, serving(tmp_path, *FLAGS) as two:
        enough = newsroom.clock.now() + 5 * SECOND
        while min(schedule.next_fire_at for schedule in newsroom.schedules()) < enough:
            time.sleep(0.05)
        newsroom.wait_until_all_is_done()
        assert [server.stop() for server in (one, two)] == [0, 0]

    assert newsroom.problems(set()) == []
    assert min(schedule.fired for schedule in newsroom.schedules()) >= 4
