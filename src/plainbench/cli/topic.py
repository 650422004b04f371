"""`plainbench topic`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plainbench.cli.command import Group, config_option, loaded
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.session import TerminalSession

if TYPE_CHECKING:
    from plainbench.config.model import Config, Lane, TopicConfig


@click.group(cls=Group)
def topic() -> None:
    """Make topics: queues with lanes."""


@topic.command()
@click.argument("name")
@click.option("--lanes", metavar="LANES", help="Their names, with weights if they differ: priority=3,normal=1")
@click.option("--fifo", is_flag=True, help="Deliver in order within a group.")
@click.option("--max-attempts", type=click.IntRange(1), metavar="N", help="Deliveries before it is dead.  [default: 5]")
@click.option(
    "--base-backoff-ms", type=click.IntRange(0), metavar="MS", help="Before the second delivery.  [default: 1000]"
)
@config_option
@click.pass_obj
def create(
    session: TerminalSession, name: str, lanes: str | None, fifo: bool, max_attempts: int | None,
    base_backoff_ms: int | None, config: Path,
) -> None:  # fmt: skip
    """Make a topic in the queue, and add it to the configuration unless it is in there."""
    from msgspec.structs import asdict

    from plainbench.cli.queues import as_made, queue_of

    read, folder = loaded(config)
    given = {
        "lanes": None if lanes is None else _lanes(lanes),
        "fifo": fifo or name.endswith(".fifo") or None,
        "max_attempts": max_attempts,
        "base_backoff_ms": base_backoff_ms,
    }
    made, is_new = _in_configuration(read, name, {key: value for key, value in given.items() if value is not None})
    text = _added(config, made) if is_new else None
    with queue_of(read, folder) as driver:
        driver.create(as_made(read, made))
    if text is not None:
        config.write_text(text, encoding="utf-8")
    where = f"It is in {config} now." if is_new else f"It was in {config} already."
    session.show({"topic": asdict(made), "added": is_new}, f"Topic '{name}' is there. {where}")


def _lanes(text: str) -> list[Lane]:
    from plainbench.config.model import Lane

    lanes = []
    for part in text.split(","):
        name, _, weight = part.strip().partition("=")
        if not name or not (weight or "1").isdecimal() or not 1 <= int(weight or 1) <= 1000:
            raise CommandError(
                f"--lanes can't be {text!r}: give names, with weights from 1 to 1000 if they differ, as in "
                "priority=3,normal=1.",
                Exit.INVALID,
            )
        lanes.append(Lane(name, int(weight or 1)))
    return lanes


def _in_configuration(config: Config, name: str, given: dict[str, object]) -> tuple[TopicConfig, bool]:
    """Return the configuration's topic of this name, or a new one made of the options, and True if it is new."""
    from plainbench.config.model import TopicConfig

    for topic in config.topics:
        if topic.name == name:
            _check_same(topic, given)
            return topic, False
    return TopicConfig(name, **given), True  # type: ignore[arg-type] # they are of the types of its fields


def _check_same(topic: TopicConfig, given: dict[str, object]) -> None:
    for key, value in given.items():
        kept = getattr(topic, key)
        if key == "lanes":
            # Names without weights stand for those that the configuration gives them.
            asked = value if isinstance(value, list) else []
            same = [lane.name for lane in asked] == [lane.name for lane in kept] and all(
                lane.weight in (1, other.weight) for lane, other in zip(asked, kept, strict=True)
            )
        else:
            same = value == kept
        if not same:
            raise CommandError(
                f"The configuration has topic '{topic.name}' with other {key}: change it there, or leave it out.",
                Exit.CONFLICT,
            )


def _added(config: Path, topic: TopicConfig) -> str:
    """Return the text of the configuration with the topic in it. It is checked, but not written yet."""
    from plainbench.config.edit import with_topic
    from plainbench.config.load import parse

    text = with_topic(config.read_text(encoding="utf-8-sig"), topic)
    if text is None:
        raise CommandError(
            f"{config} has its topics in a form that can't be added to. Write '{topic.name}' into it, "
            "and give the command again.",
            Exit.INVALID,
        )
    parse(text, config)
    return text
