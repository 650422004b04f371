"""Makes the orders of the example, the same for the same number and seed, and says what they must come to."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

PRODUCTS = Path(__file__).resolve().with_name("products.csv")
OPENING = datetime(2026, 3, 2, 8, tzinfo=UTC)
WINDOW = timedelta(minutes=10)
SHUFFLED_BY_S = 60
"""So many seconds an order may come too early or too late: less than the stream waits for."""
DAY_S = 10 * 3600


def make(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """The orders of one day as they come in, not quite in the order of their times, and one on the next morning."""
    random = Random(seed)
    products = [row["product"] for row in _products()]
    due = sorted(random.uniform(0, DAY_S) for _ in range(count))
    arrived = sorted(due, key=lambda seconds: seconds + random.uniform(0, SHUFFLED_BY_S))
    for number, seconds in enumerate(arrived, start=1):
        yield _order(number, random.choice(products), min(1 + int(random.expovariate(0.9)), 9), seconds)
    # A window ends when an order comes that is later by far: without this one the last would stay open.
    yield _order(count + 1, products[0], 1, 24 * 3600)


def _order(number: int, product: str, quantity: int, seconds: float) -> dict[str, Any]:
    at = OPENING + timedelta(seconds=round(seconds))
    return {"order": number, "product": product, "quantity": quantity, "at": at.isoformat()}


def expected(orders: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """The revenue in cents by window and category, reckoned without Spark. The window of the last order is open yet."""
    products = {row["product"]: row for row in _products()}
    revenue: Counter[tuple[str, str]] = Counter()
    for order in orders[:-1]:
        product = products[order["product"]]
        at = datetime.fromisoformat(order["at"])
        begins = OPENING + WINDOW * ((at - OPENING) // WINDOW)
        revenue[begins.isoformat(), product["category"]] += int(product["price_cents"]) * order["quantity"]
    return revenue


def _products() -> list[dict[str, str]]:
    with PRODUCTS.open() as file:
        return list(csv.DictReader(file))
