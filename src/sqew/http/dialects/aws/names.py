"""The names that AWS has for a queue: its ARN, its URL, and the region that it is in."""

from __future__ import annotations

import re
from typing import TypeVar
from urllib.parse import unquote

from sqew.http.dialects.aws.refusals import AwsError, invalid_value, no_such_queue
from sqew.rules.regions import REGION, USUAL_REGION, in_region, region_and_name

K = TypeVar("K", str, bytes)
V = TypeVar("V")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")
_REGION = re.compile(REGION)
_AFTER_PATH = re.compile("[?#]")
_BEHIND_COLON = chr(ord(":") + 1)
_MOST_REMEMBERED = 4_096
_LONGEST_NAME = 1_000
"""The characters of a name in a URL that are read: no name of a queue is as long, escaped or not."""
_MOST_IN_ARN = 8
_LONGEST_REMEMBERED = 512
"""The longest key that is cached. Longer ones are read each time: otherwise made-up ones could fill the memory."""
_names_in_urls: dict[str, str] = {}


class AwsNames:
    """The names of queues in one region of one account."""

    def __init__(self, base_url: str, account: str, region: str) -> None:
        self._base_url, self.account, self.region = base_url.rstrip("/"), account, region
        # Queues of the usual region have the same name in every dialect.
        self._before = "" if region == USUAL_REGION else f"{region}:"

    def here(self, name: str) -> str:
        """Return the engine's name of a queue or topic in this region."""
        return self._before + name

    def queue(self, name: str) -> str:
        """Return the engine's name of a queue that a client names; raise at once if it can't be a name."""
        if not _NAME.fullmatch(name):
            # One with a region before it would lead out of this one.
            raise no_such_queue()
        return self._before + name

    def queue_of_url(self, url: str) -> str:
        """Return the queue that a URL names, whatever its host; a bare name is taken as it is."""
        name = _names_in_urls.get(url)
        if name is not None:
            return self._before + name
        name = _last_part(url)
        queue = self.queue(name)
        remember(_names_in_urls, url, name, _MOST_REMEMBERED)
        return queue

    def name(self, queue: str) -> str:
        """Return the name that a queue of the engine has in this region."""
        return queue.removeprefix(self._before)

    def is_here(self, queue: str) -> bool:
        """Return True if a queue of the engine is in this region."""
        return queue.startswith(self._before) if self._before else ":" not in queue

    def can_name(self, queue: str) -> bool:
        """Return True if clients in this region can name a queue of the engine."""
        return self.is_here(queue) and _NAME.fullmatch(self.name(queue)) is not None

    def beyond(self, queue: str) -> str:
        """Return the name after which to look for more queues of this region, past a queue of the engine.

        >>> names = AwsNames("", "0", "us-east-1")
        >>> names.beyond("orders"), names.beyond("eu-west-1:orders") > "eu-west-1:zzz"
        ('orders', True)
        """
        return queue if self.is_here(queue) else queue.partition(":")[0] + _BEHIND_COLON

    @property
    def prefix(self) -> str:
        """The prefix that the names of all queues of this region have in the engine."""
        return self._before

    def url(self, queue: str) -> str:
        return f"{self._base_url}/{self.account}/{self.name(queue)}"

    def arn(self, queue: str) -> str:
        return f"arn:aws:sqs:{self.region}:{self.account}:{self.name(queue)}"

    def queue_of_arn(self, arn: str, parameter: str) -> str:
        """Return the queue that an ARN names, in whatever region."""
        parts = arn.split(":", _MOST_IN_ARN)
        is_queue = len(parts) == 6 and parts[:3] == ["arn", "aws", "sqs"] and _NAME.fullmatch(parts[5])
        if not is_queue or not _REGION.fullmatch(parts[3]):
            raise invalid_value(
                f"Value {arn[:300]} for parameter {parameter} is invalid. Reason: it must be the ARN of a queue."
            )
        return in_region(parts[3], parts[5])

    def arn_of(self, queue: str) -> str:
        """Return the ARN of a queue of the engine, in whatever region it is."""
        region, name = region_and_name(queue)
        return f"arn:aws:sqs:{region}:{self.account}:{name}"


def check_name(name: str) -> None:
    """Raise unless a queue may have this name."""
    if not _NAME.fullmatch(name):
        raise bad_name()


def bad_name() -> AwsError:
    return invalid_value("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")


def check_region(region: str) -> None:
    if not _REGION.fullmatch(region):
        raise AwsError("InvalidClientTokenId", f"The region '{region[:40]}' of the signature can't be one.", 403)


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Remember what was found out about a string that a client has sent, if the string is short."""
    if len(key) <= _LONGEST_REMEMBERED:
        if len(known) >= most:
            known.clear()
        known[key] = value


def _last_part(url: str) -> str:
    # urlsplit would raise at some, and remember the last 128 however long they are.
    path = url
    if "://" in url:
        path = _AFTER_PATH.split(url.partition("://")[2], 1)[0].partition("/")[2]
    # To unescape 16 MiB takes a second, in which everybody else waits.
    return unquote(path.rstrip("/").rpartition("/")[2][:_LONGEST_NAME])
