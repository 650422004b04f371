"""Bodies that no longer match their checksums are not exported: null stands in their place."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from sqew import Queue
from sqew.model import NewMessage, Same
from sqew.operations import ReadColumns, Send


@pytest.mark.parametrize("headers", [None, {"a": "b"}], ids=["plain", "with headers"])
def test_only_the_damaged_body_is_missing(tmp_path: Path, headers: dict[str, str] | None) -> None:
    file = tmp_path / "queue.db"
    with Queue.open(file) as q:
        q.create("orders")
        ids = [one.id for one in q.run(Send("orders", [NewMessage(b'{"n":1}', headers=headers)] * 3))]
    connection = apsw.Connection(str(file))
    connection.execute("UPDATE sqew_message SET body = x'7b7d' WHERE id = ?", (ids[1],))
    connection.close()

    with Queue.open(file) as q:
        part = q.run(ReadColumns("orders", 0, ids[-1], 10))

    assert list(part.values["id"]) == ids  # type: ignore[arg-type]
    assert list(part.values["body"]) == [b'{"n":1}', None, b'{"n":1}']  # type: ignore[arg-type]
    shown = part.values["headers"]
    assert shown == (Same({}) if headers is None else [headers, {}, headers])
