"""Topics of SNS: creating, changing, listing and deleting them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sqew.errors import ChangedMeanwhile, TopicNotFound
from sqew.model import Audience, TopicInfo
from sqew.operations import CountSubscriptions, CreateTopic, DeleteTopic, GetTopic, ListTopics, UpdateTopic
from sqew.stores.sql.statements import names
from sqew.stores.sql.transaction import Row, Work

_encode = msgspec.json.Encoder().encode
texts_of = msgspec.json.Decoder(dict[str, str]).decode


def create_topic(work: Work, op: CreateTopic) -> TopicInfo:
    row = work.execute(work.sql.topic, (op.name,)).fetchone()
    if row is not None:
        return _topic(row)
    work.execute(work.sql.insert_topic, (op.name, _json(op.attributes), _json(op.tags), work.now))
    return TopicInfo(op.name, dict(op.attributes), dict(op.tags), work.now)


def get_topic(work: Work, op: GetTopic) -> TopicInfo:
    row = work.execute(work.sql.topic, (op.name,)).fetchone()
    if row is None:
        raise TopicNotFound(op.name)
    return _topic(row)


def check_topic(work: Work, name: str) -> None:
    """Raise unless there is a topic of that name."""
    if work.execute_at_once(work.sql.topic_exists, (name,)).get is None:
        raise TopicNotFound(name)


def check_unchanged(work: Work, known: TopicInfo) -> None:
    """Raise unless a topic is still as it was."""
    if get_topic(work, GetTopic(known.name)) != known:
        raise ChangedMeanwhile(f"Topic '{known.name}'")


def list_topics(work: Work, op: ListTopics) -> list[TopicInfo]:
    return [_topic(row) for row in work.execute(work.sql.list_topics, (*names(op.prefix, op.after), op.limit))]


def update_topic(work: Work, op: UpdateTopic) -> TopicInfo:
    known = get_topic(work, GetTopic(op.name))
    if op.known is not None:
        check_unchanged(work, op.known)
    attributes = {**known.attributes, **op.attributes}
    tags = known.tags if op.tags is None else dict(op.tags)
    work.execute(work.sql.update_topic, (op.name, _json(attributes), _json(tags)))
    if op.form is not None:
        work.execute(work.sql.resign_subscriptions_to_topic, (op.name, op.form))
        _changed_many(work)
    return TopicInfo(op.name, attributes, tags, known.created_at)


def delete_topic(work: Work, op: DeleteTopic) -> bool:
    work.execute(work.sql.delete_topic, (op.name,))
    if not work.changes():
        return False
    work.execute(work.sql.delete_subscriptions_to_topic, (op.name,))
    _changed_many(work)
    return True


def count_subscriptions(work: Work, op: CountSubscriptions) -> Audience:
    return Audience(**dict(work.execute(work.sql.count_subscriptions_to_topic, (op.topic,)).fetchall()))


def _changed_many(work: Work) -> None:
    if not work.changes():
        return
    work.execute(work.sql.bump_subscriptions)
    work.bindings.reread()


def _topic(row: Row) -> TopicInfo:
    name, attributes, tags, created_at = row
    return TopicInfo(name, texts_of(attributes), texts_of(tags), created_at)


def _json(values: Mapping[str, str]) -> str:
    return _encode(dict(values)).decode()
