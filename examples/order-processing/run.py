"""Does all of the example: makes the orders, runs them through the queue, checks the books and writes the report.

python examples/order-processing/run.py --orders 20000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import apsw
from make_orders import DATA, HERE, make


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the example of a shop that processes orders.")
    parser.add_argument("--orders", type=int, default=1_000_000, help="how many (1,000,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the orders and of the faults (1)")
    parser.add_argument("--mode", choices=["real", "virtual"], default="real")
    given = parser.parse_args()
    say(f"making {given.orders:,} orders")
    make(given.orders, given.seed)
    for file in ("queue.db", "app.db"):
        for ending in ("", "-wal", "-shm"):
            (DATA / f"{file}{ending}").unlink(missing_ok=True)
    say("running them through the queue")
    config = ["--config", str(HERE / "plainbench.yaml")]
    if code := plainbench("run", *config, "--seed", str(given.seed), "--mode", given.mode):
        return code
    runs = sorted((DATA / "runs").iterdir())
    books = runs[-1] / "app.db" if given.mode == "virtual" else DATA / "app.db"
    if not balanced(books, given.orders):
        return 1
    return plainbench("report", str(runs[-1]))


def plainbench(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", "plainbench.cli.main", *words], check=False).returncode


def balanced(path: Path, expected: int) -> bool:
    """Whether the books agree: every order is in them once, and what is gone from the stock was sold."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        written, accepted, sold = db.execute(
            "SELECT count(*), sum(accepted), sum(quantity) FILTER (WHERE accepted) FROM orders"
        ).get
        left, oversold = db.execute("SELECT sum(stock), count(*) FILTER (WHERE stock < 0) FROM products").get
    finally:
        db.close()
    started_with = sum(int(line.rsplit(",", 1)[1]) for line in _rows("products"))
    unknown = sum('"P-0000"' in line for name in ("live", "backlog") for line in (DATA / f"{name}.jsonl").open())
    say(f"{written:,} orders are written down: {accepted:,} accepted, {written - accepted:,} sold out")
    say(f"{unknown:,} are dead letters: there is no such product")
    agrees = written + unknown == expected and started_with - left == sold and not oversold
    say("the books are balanced" if agrees else "the books do NOT agree with the stock")
    return agrees


def _rows(fixture: str) -> list[str]:
    return (HERE / "fixtures" / f"{fixture}.csv").read_text().splitlines()[1:]


def say(sentence: str) -> None:
    print(f"example: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
