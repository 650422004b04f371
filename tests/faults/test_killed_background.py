"""Servers that end in the middle of deliveries and fires: every slot once, every event to every endpoint."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from tests.faults.newsroom import FLAGS, SECOND, Database, File, Newsroom, Press
from tests.support.endpoint import Hook, endpoint, stalls
from tests.support.postgres import new_database
from tests.support.serving import Serving, serving

KILLS = 6
KILLS_ON_A_DATABASE = 3
MOST_ROUNDS = 4
"""The factor by which there may be more kills until some have mattered."""
STOPS = 2


@pytest.fixture
def hook() -> Iterator[Hook]:
    with endpoint() as running:
        yield running


@pytest.fixture
def newsroom(tmp_path: Path, hook: Hook) -> Iterator[Newsroom]:
    room = Newsroom(File(tmp_path), hook)
    yield room
    room.close()


@pytest.fixture
def newsroom_on_postgres(hook: Hook) -> Iterator[Newsroom]:
    room = Newsroom(Database(new_database()), hook)
    yield room
    room.close()


def until_it_is_at_work(newsroom: Newsroom, random: Random) -> None:
    """Wait for something to arrive, and a little; every other time for the moment when schedules fire."""
    so_far = len(newsroom.hook.received())
    newsroom.hook.wait_for_any(so_far + random.randint(1, 30), within=30)
    if random.random() < 0.5:
        time.sleep(1 - time.time() % 1)
    time.sleep(random.uniform(0, 0.05))


def kill_and_judge(folder: Path, newsroom: Newsroom, kills: int, seed: int, servers: int = 2) -> tuple[int, list[str]]:
    """Kill so often, and on until it mattered. Return how often, and what is wrong then."""
    random, press, killed = Random(seed), Press(newsroom, seed), 0
    with ExitStack() as stack:

        def start() -> Serving:
            flags = (*FLAGS, *newsroom.place.flags, "--durability", random.choice(("durable", "fast")))
            return stack.enter_context(serving(folder, *flags, database=newsroom.place.database))

        alive = [start() for _ in range(servers)]
        press.start()
        while killed < kills or (killed < MOST_ROUNDS * kills and not mattered(newsroom, kills)):
            until_it_is_at_work(newsroom, random)
            victim = random.randrange(servers)
            assert alive[victim].stop(signal.SIGKILL) == -signal.SIGKILL
            assert "Traceback" not in alive[victim].log.read_text()
            assert newsroom.place.inconsistencies() == []
            alive[victim] = start()
            killed += 1
        press.end()
        newsroom.wait_until_all_is_done()
        assert [server.stop() for server in alive] == [0] * servers
    return killed, newsroom.problems(press.published)


def slots_fired(newsroom: Newsroom) -> int:
    return sum(schedule.fired for schedule in newsroom.schedules())


def mattered(newsroom: Newsroom, kills: int) -> bool:
    """Return True if kills cut off posts, which were made again, and schedules fired all the while."""
    return newsroom.posted_twice() > 0 and slots_fired(newsroom) > 10 * kills


def account(newsroom: Newsroom) -> str:
    posts, twice = len(newsroom.hook.received()), newsroom.posted_twice()
    return f"{posts} posts ({twice} again), {slots_fired(newsroom)} slots"


def test_servers_that_are_killed_fire_every_slot_once_and_deliver_every_event(tmp_path, newsroom, capsys):
    killed, problems = kill_and_judge(tmp_path, newsroom, KILLS, seed=1)

    with capsys.disabled():
        print(f"\n{killed} kills: {account(newsroom)}")  # noqa: T201
    assert problems == []
    assert mattered(newsroom, KILLS), f"{killed} kills fell where nothing was at stake: {account(newsroom)}"


def test_of_three_servers_on_a_database_some_are_killed_and_every_slot_fires_once_and_every_event_arrives(
    tmp_path, newsroom_on_postgres, capsys
):
    killed, problems = kill_and_judge(tmp_path, newsroom_on_postgres, KILLS_ON_A_DATABASE, seed=1, servers=3)

    seen = account(newsroom_on_postgres)
    with capsys.disabled():
        print(f"\n{killed} kills: {seen}")  # noqa: T201
    assert problems == []
    assert mattered(newsroom_on_postgres, KILLS_ON_A_DATABASE), (
        f"{killed} kills fell where nothing was at stake: {seen}"
    )


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 7))
def test_hundreds_of_kills_lose_no_slot_and_no_event(tmp_path, newsroom, seed):
    _, problems = kill_and_judge(tmp_path, newsroom, 100, seed)

    assert problems == []


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
