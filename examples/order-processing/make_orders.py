"""Makes the orders of the example: JSONL files that are the same for the same number and seed.

    python make_orders.py 1000000

Most are a shop's backlog, which is imported at once. One in fifty is ordered meanwhile, and is to be served first.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
LIVE = 50
"""One order in so many comes in while the others are worked off."""
NO_SUCH_PRODUCT = 0.0005


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the orders of the example.")
    parser.add_argument("orders", type=int, nargs="?", default=1_000_000, help="how many (1,000,000)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    make(given.orders, given.seed)


def make(count: int, seed: int) -> None:
    """Write them, unless these very ones are there."""
    made = DATA / "made.json"
    wanted = {"orders": count, "seed": seed}
    if made.exists() and json.loads(made.read_text()) == wanted:
        return
    DATA.mkdir(exist_ok=True)
    made.unlink(missing_ok=True)
    live = max(1, count // LIVE)
    orders = _orders(Random(seed))
    for name, part in (("live.jsonl", live), ("backlog.jsonl", max(1, count - live))):
        with (DATA / name).open("w") as file:
            file.writelines(next(orders) for _ in range(part))
    made.write_text(json.dumps(wanted))


def _orders(random: Random) -> Iterator[str]:
    """Lines without end. A few customers order often, and now and then somebody wants what there never was."""
    customers = [row["id"] for row in _fixture("customers")]
    products = [row["id"] for row in _fixture("products")]
    number = 0
    while True:
        number += 1
        order = {
            "id": number,
            "customer": int(customers[int(len(customers) * random.random() ** 2)]),
            "product": "P-0000" if random.random() < NO_SUCH_PRODUCT else random.choice(products),
            "quantity": min(1 + int(random.expovariate(0.8)), 20),
            "express": random.random() < 0.1,
        }
        yield json.dumps(order, separators=(",", ":")) + "\n"


def _fixture(name: str) -> list[dict[str, str]]:
    with (HERE / "fixtures" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
