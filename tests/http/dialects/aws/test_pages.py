"""Lists of queues, topics and subscriptions: names in other regions don't make them slow, and nothing is left out."""

import asyncio
from bisect import bisect_right

import pytest

from sqew.http.dialects.aws.names import AwsNames
from sqew.http.dialects.aws.pages import first_of

OTHERS = {
    "of another region": [f"eu-west-1:q{n:05}" for n in range(10_000)],
    "of many regions": [f"r{n:05}:q" for n in range(10_000)],
    "that can't be named": [f"m.{n:05}" for n in range(10_000)],
}


class Store:
    """An ordered list of names that counts its reads."""

    def __init__(self, names):
        self._names = sorted(names)
        self.reads = 0

    async def read(self, after, limit):
        self.reads += 1
        first = bisect_right(self._names, after)
        return self._names[first : first + limit]


def listed(store, region="us-east-1", after="", most=1):
    names = AwsNames("http://here", "0", region)
    return asyncio.run(first_of(store.read, names.can_name, names.beyond, after, most))


@pytest.mark.parametrize(("others", "reads"), [("of another region", 2), ("of many regions", 12),
                                               ("that can't be named", 12)])  # fmt: skip
def test_a_small_page_was_read_two_by_two_where_others_have_many(others, reads):
    store = Store(["aaa", "zzz", *OTHERS[others]])

    assert listed(store) == ["aaa", "zzz"]
    assert store.reads <= reads


@pytest.mark.parametrize("most", [1, 2, 3, 1_000])
def test_page_by_page_all_of_a_region_are_listed_and_none_of_another(most):
    here = ["a", "eu-west-1", "eu-west-12", "eu-west-1_", "eu-west-1a", "z"]
    store = Store([*here, *(f"eu-west-1:{name}" for name in here), "eu-west-12:x", "a:b:c", "ü:x"])

    found, page = [], listed(store, most=most)
    while len(page) > most:
        found += page[:most]
        page = listed(store, after=found[-1], most=most)

    assert found + page == sorted(here)


def test_a_page_that_is_there_at_once_takes_one_read_of_no_more_than_it_holds():
    store = Store([f"q{n:05}" for n in range(10_000)])

    assert listed(store, most=10) == [f"q{n:05}" for n in range(11)]
    assert store.reads == 1
