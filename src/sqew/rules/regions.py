"""Regions: AWS's clients may use the same name in each, so in Sqew a name has its region before a colon."""

from __future__ import annotations

USUAL_REGION = "us-east-1"
"""The default region: its queues and topics have the same names in every dialect."""
REGION = r"[a-z][a-z0-9-]{1,30}"
"""A regular expression for the names of regions."""


def in_region(region: str, name: str) -> str:
    """Return the name in Sqew of a region's queue or topic.

    >>> in_region("eu-west-1", "orders"), in_region("us-east-1", "orders")
    ('eu-west-1:orders', 'orders')
    """
    return name if region == USUAL_REGION else f"{region}:{name}"


def region_and_name(name: str) -> tuple[str, str]:
    """Return the region of a queue or topic of Sqew, and its name there.

    >>> region_and_name("eu-west-1:orders"), region_and_name("orders")
    (('eu-west-1', 'orders'), ('us-east-1', 'orders'))
    """
    region, colon, short = name.rpartition(":")
    return (region if colon else USUAL_REGION), short
