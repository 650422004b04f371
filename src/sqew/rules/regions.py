"""Regions: AWS's clients have the same names in each, and Sqew tells them apart by what stands before a colon."""

from __future__ import annotations

USUAL_REGION = "us-east-1"
"""The one whose queues and topics have the same names in every dialect."""
REGION = r"[a-z][a-z0-9-]{1,30}"
"""What a region may be called, as a regular expression."""


def in_region(region: str, name: str) -> str:
    """What a queue or topic of a region is called in Sqew.

    >>> in_region("eu-west-1", "orders"), in_region("us-east-1", "orders")
    ('eu-west-1:orders', 'orders')
    """
    return name if region == USUAL_REGION else f"{region}:{name}"


def region_and_name(name: str) -> tuple[str, str]:
    """The region that a queue or topic of Sqew is in, and what it is called there.

    >>> region_and_name("eu-west-1:orders"), region_and_name("orders")
    (('eu-west-1', 'orders'), ('us-east-1', 'orders'))
    """
    region, colon, short = name.rpartition(":")
    return (region if colon else USUAL_REGION), short
