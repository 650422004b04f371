"""Lines of event logs, and others among them that are no events."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqew.spark.files import parts_of
from sqew.spark.transforms.log_lines import BROKEN_IN, read_part

EVENT = b'{"at":%d,"event":"sent","topic":"orders","n":%d}'
NO_EVENTS = [
    b'{"at":1,"event":"se',
    b"\xff\xfe no text",
    b'{"at":1,"event":"sent","topic":"\xff","n":1}',
    b"[1, 2]",
    b'{"order": 1}',
    b'{"at":"noon","event":"sent"}',
    b'{"at":99999999999999999999,"event":"sent"}',
    b'{"at":9223372036854775807,"event":"sent","due":-9223372036854775808}',
    b'{"at":1,"event":"sent","n":1,"to":9000000000000}',
    b"[" * 100_000,
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write a log of events, each tenth followed by another line, and no line break at the end."""
    lines = []
    for n in range(1, 101):
        lines += [EVENT % (n, n), *([NO_EVENTS[n // 10 - 1], b""] if n % 10 == 0 else [])]
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join(lines).rstrip())
    return path


@pytest.mark.parametrize("split_bytes", [1 << 30, 1_000, 77])
def test_every_line_is_an_event_or_is_counted_wherever_the_file_is_split(log: Path, split_bytes: int) -> None:
    batches = [batch for part in parts_of([str(log)], "jsonl", split_bytes) for batch in read_part(part)]

    rows = [row for batch in batches for row in batch.to_pylist()]

    events = [(row["at"], row["n"]) for row in rows if row[BROKEN_IN] is None]
    assert events == [(n, n) for n in range(1, 101)]
    assert [row[BROKEN_IN] for row in rows if row[BROKEN_IN]] == [str(log)] * len(NO_EVENTS)
