"""Policies: who may do what with a queue or a topic. They are kept and shown; whoever may come in may do everything."""

from __future__ import annotations

from typing import Any

Statement = dict[str, Any]


def permission(service: str, label: str, accounts: list[str], actions: list[str], resource: str) -> Statement:
    """What AddPermission adds to a policy."""
    principals = [f"arn:aws:iam::{account}:root" for account in accounts]
    allowed = [f"{service}:{action}" for action in actions]
    return {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": principals[0] if len(principals) == 1 else principals},
        "Action": allowed[0] if len(allowed) == 1 else allowed,
        "Resource": resource,
    }


def statements_of(policy: dict[str, Any]) -> list[Any]:
    """The statements of a policy; the only one may stand there by itself."""
    found = policy.get("Statement", [])
    return found if isinstance(found, list) else [found]


def without(statements: list[Statement], label: str | None) -> list[Statement]:
    """The statements that are not called so."""
    return [statement for statement in statements if statement.get("Sid") != label]
