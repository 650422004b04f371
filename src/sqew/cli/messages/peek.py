"""A view of the messages that wait in a queue."""

from __future__ import annotations

from sqew.cli import views
from sqew.cli.session import QueueSession, now_ms


def show_next(session: QueueSession, queue: str, limit: int, lane: str | None = None) -> None:
    """Show the next messages of a queue without taking them."""
    with session.reader() as q:
        messages = q.peek(queue, limit, lane=lane)
    session.show(
        views.messages_document(messages), views.waiting_messages(messages, now_ms(), f"Queue '{queue}' is empty.")
    )
