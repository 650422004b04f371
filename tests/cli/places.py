"""The places that a command works on: a file, a database and a server. The tests that use these run on all three."""

import pytest

from sqew import Client
from tests.support.postgres import Reused
from tests.support.serving import serving

OPTIONS = ("--durability", "fast", "--delivery-allow", "127.0.0.1", "--delivery-retries", "")


@pytest.fixture(scope="module")
def busy_server(tmp_path_factory):
    """Yield a server that posts to this machine, once, and fires schedules."""
    with serving(tmp_path_factory.mktemp("server"), *OPTIONS) as server:
        yield server


def emptied(url):
    """Delete everything from a server that a test could find."""
    with Client(url) as client:
        for schedule in client.schedules.list():
            client.schedules.delete(schedule.name)
        for subscription in client.events.subscriptions():
            client.events.unsubscribe(subscription.id)
        for delivery in client.deliveries.list():
            client.deliveries.drop(delivery.id)
        for queue in client.queues():
            client.delete(queue.name)


@pytest.fixture(params=["file", "database", "server"])
def place(request, folder, monkeypatch):
    """Set up each place in turn, empty but for the queue orders, as the default of commands; return its name."""
    if request.param == "server":
        url = request.getfixturevalue("busy_server").url
        emptied(url)
        monkeypatch.setenv("SQEW_URL", url)
    else:
        monkeypatch.setenv("SQEW_DELIVERY_ALLOW", "127.0.0.1")
    if request.param == "database":
        database: Reused = request.getfixturevalue("reused_database")
        database.empty()
        monkeypatch.setenv("SQEW_DATABASE_URL", database.url)
    request.getfixturevalue("orders")
    return request.param
