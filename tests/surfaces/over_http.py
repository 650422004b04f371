"""The Sqew dialect and the routes beside it, spoken by hand."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tests.support.serving import Serving
from tests.surfaces.surface import Held, Refused, Seen


def _path(*parts: object) -> str:
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def seen(document: dict[str, Any]) -> Seen:
    """Read a message as a list of the Sqew dialect shows it."""
    return Seen(
        document["id"], document["payload"], document["attempts"], document["state"], document.get("headers", {}),
        document.get("idempotency_key"), document.get("group"), document.get("lane", "normal"),
        document.get("priority", 0), document.get("reason"), document.get("died_in"),
    )  # fmt: skip


class OverHTTP:
    """A surface over requests to a server."""

    def __init__(self, server: Serving) -> None:
        self._server = server

    def _ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        if query:
            path += "?" + "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
        answer = self._server.call(method, path, body)
        # Where hq's clients expect it, an unknown queue is no refusal but for this header.
        if answer.status >= 400 or "x-sqew-error" in answer.headers:
            raise Refused(answer.headers["x-sqew-error"], answer.body.decode())
        return answer.json if answer.body else None

    def _settle(self, verb: str, queue: str, item: dict[str, Any]) -> None:
        self._ask("POST", _path("queues", queue, verb), item)

    def create(self, queue: str, **policy: Any) -> None:
        if "dead_letter" in policy:
            policy["dlq"] = policy.pop("dead_letter")
        self._ask("POST", "/queues", {"name": queue, **policy})

    def delete(self, queue: str) -> None:
        self._ask("DELETE", _path("queues", queue))

    def send(self, queue: str, value: Any, **options: Any) -> int:
        if "key" in options:
            options["idempotency_key"] = options.pop("key")
        return self._ask("POST", _path("queues", queue, "messages"), {"payload": value, **options})["message_id"]

    def receive(self, queue: str, limit: int = 1, **options: Any) -> list[Held]:
        if "lease_ms" in options:
            options["visibility_ms"] = options.pop("lease_ms")
        found = self._ask("POST", _path("queues", queue, "poll"), batch=limit, **options)["messages"]
        return [Held(m["id"], m["payload"], m["attempts"], m["token"]) for m in found]

    def ack(self, queue: str, id: int, token: str) -> None:
        self._settle("ack", queue, {"id": id, "token": token})

    def nack(self, queue: str, id: int, token: str, **options: Any) -> None:
        self._settle("nack", queue, {"id": id, "token": token, **options})

    def extend(self, queue: str, id: int, token: str, ms: int) -> None:
        self._settle("extend", queue, {"id": id, "token": token, "ms": ms})

    def get(self, queue: str, id: int) -> Seen:
        return seen(self._ask("GET", _path("queues", queue, "messages", id)))

    def peek(self, queue: str, limit: int = 10) -> list[Seen]:
        return [seen(one) for one in self._ask("GET", _path("queues", queue, "peek"), limit=limit)["messages"]]

    def remove(self, queue: str, id: int) -> None:
        self._ask("DELETE", _path("queues", queue, "messages", id))

    def purge(self, queue: str) -> int:
        return self._ask("POST", _path("queues", queue, "purge"))["count"]

    def stats(self, queue: str) -> dict[str, int]:
        found = self._ask("GET", _path("queues", queue, "stats"))
        states = {state: found[state] for state in ("ready", "delayed", "leased", "blocked")}
        return states | {"dead": found["dlq"], "archived": found["depths"]["archived"]}

    def archive(self, queue: str) -> list[tuple[int, str]]:
        return [(one["id"], one["outcome"]) for one in self._ask("GET", _path("queues", queue, "archive"))["messages"]]

    def dead_letters(self, queue: str) -> list[Seen]:
        return [seen(one) for one in self._ask("GET", _path("queues", queue, "dlq"))["messages"]]

    def requeue(self, queue: str, ids: list[int] | None = None) -> int:
        body = None if ids is None else {"ids": ids}
        return self._ask("POST", _path("queues", queue, "dlq", "requeue"), body)["count"]

    def purge_dead(self, queue: str, ids: list[int] | None = None) -> int:
        return self._ask("DELETE", _path("queues", queue, "dlq"), None if ids is None else {"ids": ids})["count"]

    def consumers(self, queue: str) -> list[tuple[str, list[int]]]:
        found = self._ask("GET", _path("v1", "queues", queue, "consumers"))
        return [(one["name"], [claim["number"] for claim in one["claims"]]) for one in found]

    def release(self, queue: str, consumer: str, *, force: bool = False) -> None:
        query = {"force": "true"} if force else {}
        self._ask("DELETE", _path("v1", "queues", queue, "consumers", consumer), **query)

    def open_consumer(self, queue: str, consumer: str, owner: str, hold_ms: int = 30_000) -> tuple[int, list[int]]:
        path = _path("v1", "queues", queue, "consumers", consumer, "open")
        opened = self._ask("POST", path, {"owner": owner, "hold_ms": hold_ms})
        return opened["epoch"], opened["claims"]

    def claim(self, queue: str, consumer: str, epoch: int, **options: Any) -> tuple[int, int, int]:
        path = _path("v1", "queues", queue, "consumers", consumer, "claims")
        claim = self._ask("POST", path, {"epoch": epoch, **options})
        return claim["number"], claim["count"], len(claim["parts"])

    def read(self, queue: str, consumer: str, number: int, part: int = 0) -> list[Seen]:
        path = _path("v1", "queues", queue, "consumers", consumer, "claims", number, "parts", part)
        answer = self._server.call("GET", path)
        if answer.status >= 400:
            raise Refused(answer.headers["x-sqew-error"], answer.body.decode())
        lines = [json.loads(line) for line in answer.body.splitlines()]
        return [
            Seen(
                m["id"], m["body"], m["attempts"], m["state"], m.get("headers", {}), m.get("key"), m.get("group"),
                m.get("lane", "normal"), m.get("priority", 0),
            )
            for m in lines
        ]  # fmt: skip

    def renew(self, queue: str, consumer: str, epoch: int, **options: Any) -> None:
        self._ask("POST", _path("v1", "queues", queue, "consumers", consumer, "renew"), {"epoch": epoch, **options})

    def writers(self, queue: str) -> list[tuple[str, int | None, int]]:
        found = self._ask("GET", _path("v1", "queues", queue, "writers"))
        return [(one["name"], one["epoch"], sum(staging["messages"] for staging in one["staged"])) for one in found]

    def stage(self, queue: str, writer: str, epoch: int, part: str, values: list[Any]) -> int:
        path = _path("v1", "queues", queue, "writers", writer, "epochs", epoch, "parts", part)
        return self._ask("POST", path, [{"message": value} for value in values])["staged"]

    def promote(self, queue: str, writer: str, epoch: int, parts: dict[str, int]) -> tuple[int | None, bool]:
        path = _path("v1", "queues", queue, "writers", writer, "epochs", epoch, "promote")
        found = self._ask("POST", path, {"parts": parts})
        return found["promoted"], found["repeated"]

    def abort(self, queue: str, writer: str, epoch: int) -> None:
        self._ask("DELETE", _path("v1", "queues", queue, "writers", writer, "epochs", epoch))

    def subscribe(self, pattern: str, queue: str | None = None, endpoint: str | None = None) -> int:
        body = {"queue_name": queue} if endpoint is None else {"endpoint": endpoint}
        return self._ask("POST", _path("v1", "events", pattern, "subscriptions"), body)["id"]

    def subscriptions(self, queue: str) -> list[tuple[int, str, str]]:
        found = self._ask("GET", _path("v1", "queues", queue, "subscriptions"))
        return [(one["id"], one["pattern"], one["queue_name"]) for one in found]

    def unsubscribe(self, id: int) -> None:
        self._ask("DELETE", _path("v1", "subscriptions", id))

    def publish(self, routing_key: str, value: Any) -> dict[str, Any]:
        found = self._ask("POST", _path("v1", "events", routing_key), {"message": value})
        messages = [(one["queue"], one["id"]) for one in found["messages"]]
        return {"messages": messages, "deliveries": found["deliveries"], "missing": found.get("missing", [])}

    def deliveries(self, subscription: int) -> list[tuple[int, str, int]]:
        found = self._ask("GET", "/v1/deliveries", subscription_id=subscription)
        return [(one["id"], one["state"], one["attempts"]) for one in found]

    def retry(self, delivery: int) -> None:
        self._ask("POST", _path("v1", "deliveries", delivery, "retry"))

    def drop(self, delivery: int) -> None:
        self._ask("DELETE", _path("v1", "deliveries", delivery))

    def schedule(self, name: str, queue: str, value: Any, **timing: str) -> None:
        body = {"name": name, "target_kind": "queue", "target": queue, "message": value, **timing}
        self._ask("POST", "/v1/schedules", body)

    def scheduled(self, name: str) -> dict[str, Any]:
        found = self._ask("GET", _path("v1", "schedules", name))
        fields = {"status": "status", "canonical": "canonical", "human_readable": "sentence", "fired": "fired"}
        return {ours: found[theirs] for theirs, ours in fields.items()}

    def pause(self, name: str) -> None:
        self._ask("PATCH", _path("v1", "schedules", name), {"status": "paused"})

    def resume(self, name: str) -> None:
        self._ask("PATCH", _path("v1", "schedules", name), {"status": "active"})

    def run_schedule(self, name: str) -> list[int]:
        return self._ask("POST", _path("v1", "schedules", name, "runs"))["msg_ids"]

    def unschedule(self, name: str) -> None:
        self._ask("DELETE", _path("v1", "schedules", name))

    def preview(self, **timing: Any) -> dict[str, Any]:
        found = self._ask("POST", "/v1/previews", timing)
        return {"canonical": found["canonical"], "sentence": found["human_readable"], "fires": len(found["next_fires"])}
