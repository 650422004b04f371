"""What AWS calls a queue: its ARN, its URL, and the region that it is in."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from sqew.http.aws_refusals import AwsError, invalid_value

USUAL_REGION = "us-east-1"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")
_REGION = re.compile(r"[a-z][a-z0-9-]{1,30}")
_MOST_REMEMBERED = 4_096


class Names:
    """Names as one region of one account has them."""

    def __init__(self, base_url: str, account: str, region: str) -> None:
        self._base_url, self.account, self.region = base_url.rstrip("/"), account, region
        # Queues of the usual region have the same name in every dialect.
        self._before = "" if region == USUAL_REGION else f"{region}:"
        self._known: dict[str, str] = {}

    def queue(self, name: str) -> str:
        """The queue that is called so here, as the engine knows it."""
        return self._before + name

    def queue_of_url(self, url: str) -> str:
        """The queue that a URL names, whatever its host; or that is named as it is."""
        known = self._known.get(url)
        if known is None:
            known = self.queue(_last_part(url))
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[url] = known
        return known

    def name(self, queue: str) -> str:
        """What a queue of the engine is called here."""
        return queue.removeprefix(self._before)

    def is_here(self, queue: str) -> bool:
        """Whether a queue of the engine is in this region."""
        return queue.startswith(self._before) if self._before else ":" not in queue

    @property
    def prefix(self) -> str:
        """What the names of all queues of this region begin with, in the engine."""
        return self._before

    def url(self, queue: str) -> str:
        return f"{self._base_url}/{self.account}/{self.name(queue)}"

    def arn(self, queue: str) -> str:
        return f"arn:aws:sqs:{self.region}:{self.account}:{self.name(queue)}"

    def queue_of_arn(self, arn: str, parameter: str) -> str:
        """The queue that an ARN names, in whatever region."""
        parts = arn.split(":")
        if len(parts) != 6 or parts[:3] != ["arn", "aws", "sqs"] or not _NAME.fullmatch(parts[5]):
            raise invalid_value(
                f"Value {arn} for parameter {parameter} is invalid. Reason: it must be the ARN of a queue."
            )
        return parts[5] if parts[3] == USUAL_REGION else f"{parts[3]}:{parts[5]}"

    def arn_of(self, queue: str) -> str:
        """The ARN of a queue of the engine, in whatever region it is."""
        region, colon, name = queue.rpartition(":")
        return f"arn:aws:sqs:{region if colon else USUAL_REGION}:{self.account}:{name}"


def check_name(name: str) -> None:
    """Raise unless a queue may be called so."""
    if not _NAME.fullmatch(name):
        raise bad_name()


def bad_name() -> AwsError:
    return invalid_value("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")


def check_region(region: str) -> None:
    if not _REGION.fullmatch(region):
        raise AwsError("InvalidClientTokenId", f"The region '{region[:40]}' of the signature can't be one.", 403)


def _last_part(url: str) -> str:
    path = urlsplit(url).path if "://" in url else url
    name = unquote(path.rstrip("/").rpartition("/")[2])
    if not _NAME.fullmatch(name):
        raise AwsError("QueueDoesNotExist", "The specified queue does not exist.")
    return name
