"""`sqew` given the place of the queues, with its answers in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from click.testing import CliRunner

from sqew.cli.main import sqew
from tests.surfaces.surface import Held, Refused, Seen


def _seen(document: dict[str, Any]) -> Seen:
    death = document.get("death") or {}
    return Seen(
        document["id"], document["payload"], document["attempts"], document["state"], document["headers"],
        document["key"], document["group"], document["lane"], document["priority"],
        death.get("reason"), death.get("queue"),
    )  # fmt: skip


def _options(options: Mapping[str, Any]) -> list[str]:
    """Return options as they are typed: delay_ms=5 as ``--delay-ms 5``, True as a flag."""
    words: list[str] = []
    for name, value in options.items():
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value))
    return words


class OnTheCommandLine:
    """A surface over commands, run in this process."""

    def __init__(self, *place: str) -> None:
        self._place = place

    def _run(self, *words: object, **options: Any) -> Any:
        given = [str(word) for word in words] + _options(options)
        done = CliRunner().invoke(sqew, [*self._place, *given, "--json"])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        answer = json.loads(done.stdout) if done.stdout else None
        if done.exit_code:
            raise Refused(done.exit_code, done.stderr)
        return answer

    def _settle(self, *words: str, queue: str, id: int, **options: Any) -> None:
        self._run("message", *words, queue=queue, id=id, **options)

    def create(self, queue: str, **policy: Any) -> None:
        if "dead_letter" in policy:
            policy["dlq"] = policy.pop("dead_letter")
        backoff = policy.pop("backoff", {})
        policy |= {f"backoff_{name}": value for name, value in backoff.items()}
        self._run("queue", "add", name=queue, **policy)

    def delete(self, queue: str) -> None:
        self._run("queue", "rm", name=queue)

    def send(self, queue: str, value: Any, **options: Any) -> int:
        headers = options.pop("headers", {})
        if "key" in options:
            options["idempotency_key"] = options.pop("key")
        words = [word for name, text in headers.items() for word in ("--header", f"{name}={text}")]
        return self._run("message", "enqueue", *words, queue=queue, payload=json.dumps(value), **options)["id"]

    def receive(self, queue: str, limit: int = 1, **options: Any) -> list[Held]:
        found = self._run("message", "poll", queue=queue, batch=limit, **options)["messages"]
        return [Held(m["id"], m["payload"], m["attempts"], m["token"]) for m in found]

    def ack(self, queue: str, id: int, token: str) -> None:
        self._settle("ack", queue=queue, id=id, token=token)

    def nack(self, queue: str, id: int, token: str, **options: Any) -> None:
        self._settle("nack", queue=queue, id=id, token=token, **options)

    def extend(self, queue: str, id: int, token: str, ms: int) -> None:
        self._settle("extend-lease", queue=queue, id=id, token=token, ms=ms)

    def get(self, queue: str, id: int) -> Seen:
        return _seen(self._run("message", "peek", queue=queue, id=id))

    def peek(self, queue: str, limit: int = 10) -> list[Seen]:
        return [_seen(one) for one in self._run("queue", "peek", name=queue, limit=limit)["messages"]]

    def remove(self, queue: str, id: int) -> None:
        self._settle("remove", queue=queue, id=id)

    def purge(self, queue: str) -> int:
        return self._run("queue", "purge", name=queue)["purged"]

    def stats(self, queue: str) -> dict[str, int]:
        depths = self._run("stats", queue=queue)["depths"]
        states = ("ready", "delayed", "leased", "blocked")
        sums = {state: sum(lane[state] for lane in depths["lanes"].values()) for state in states}
        return sums | {"dead": depths["dead"], "archived": depths["archived"]}

    def archive(self, queue: str) -> list[tuple[int, str]]:
        return [(one["id"], one["outcome"]) for one in self._run("archive", "list", queue=queue)["messages"]]

    def dead_letters(self, queue: str) -> list[Seen]:
        return [_seen(one) for one in self._run("dlq", "list", queue=queue)["messages"]]

    def requeue(self, queue: str, ids: list[int] | None = None) -> int:
        return self._run("dlq", "requeue", queue=queue, **_ids(ids))["requeued"]

    def purge_dead(self, queue: str, ids: list[int] | None = None) -> int:
        return self._run("dlq", "purge", queue=queue, **_ids(ids))["purged"]

    def consumers(self, queue: str) -> list[tuple[str, list[int]]]:
        found = self._run("consumer", "list", queue=queue)["consumers"]
        return [(one["name"], [claim["number"] for claim in one["claims"]]) for one in found]

    def release(self, queue: str, consumer: str, *, force: bool = False) -> None:
        self._run("consumer", "release", queue=queue, name=consumer, **({"force": True} if force else {}))

    def writers(self, queue: str) -> list[tuple[str, int | None, int]]:
        found = self._run("writer", "list", queue=queue)["writers"]
        return [(one["name"], one["epoch"], sum(staging["messages"] for staging in one["staged"])) for one in found]

    def abort(self, queue: str, writer: str, epoch: int) -> None:
        self._run("writer", "abort", queue=queue, name=writer, epoch=epoch)

    def subscribe(self, pattern: str, queue: str | None = None, endpoint: str | None = None) -> int:
        target = {"queue": queue} if endpoint is None else {"endpoint": endpoint}
        return self._run("subscription", "add", pattern=pattern, **target)["id"]

    def subscriptions(self, queue: str) -> list[tuple[int, str, str]]:
        found = self._run("subscription", "list", queue=queue)["subscriptions"]
        return [(one["id"], one["pattern"], one["target"]) for one in found]

    def unsubscribe(self, id: int) -> None:
        self._run("subscription", "rm", id=id)

    def publish(self, routing_key: str, value: Any) -> dict[str, Any]:
        found = self._run("event", "publish", key=routing_key, body=json.dumps(value))
        messages = [(one["queue"], one["id"]) for one in found["messages"]]
        return {"messages": messages, "deliveries": found["deliveries"], "missing": found["missing"]}

    def deliveries(self, subscription: int) -> list[tuple[int, str, int]]:
        found = self._run("delivery", "list", subscription=subscription)["deliveries"]
        return [(one["id"], one["state"], one["attempts"]) for one in found]

    def retry(self, delivery: int) -> None:
        self._run("delivery", "retry", id=delivery)

    def drop(self, delivery: int) -> None:
        self._run("delivery", "drop", id=delivery)

    def schedule(self, name: str, queue: str, value: Any, **timing: str) -> None:
        self._run("schedule", "add", name=name, queue=queue, body=json.dumps(value), **timing)

    def scheduled(self, name: str) -> dict[str, Any]:
        found = self._run("schedule", "show", name=name)
        fields = {"status": "status", "canonical": "canonical", "human_readable": "sentence", "fired": "fired"}
        return {ours: found[theirs] for theirs, ours in fields.items()}

    def pause(self, name: str) -> None:
        self._run("schedule", "pause", name=name)

    def resume(self, name: str) -> None:
        self._run("schedule", "resume", name=name)

    def run_schedule(self, name: str) -> list[int]:
        return self._run("schedule", "run", name=name)["msg_ids"]

    def unschedule(self, name: str) -> None:
        self._run("schedule", "rm", name=name)

    def preview(self, **timing: Any) -> dict[str, Any]:
        found = self._run("preview", **timing)
        return {"canonical": found["canonical"], "sentence": found["human_readable"], "fires": len(found["next_fires"])}


def _ids(ids: list[int] | None) -> dict[str, str]:
    return {} if ids is None else {"ids": ",".join(map(str, ids))}
