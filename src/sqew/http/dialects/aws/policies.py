"""Access policies of queues and topics. They are stored and shown only: a caller that is let in may do everything."""

from __future__ import annotations

from typing import Any

Statement = dict[str, Any]


def permission(service: str, label: str, accounts: list[str], actions: list[str], resource: str) -> Statement:
    """Return the statement that AddPermission adds to a policy."""
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
    """Return the statements of a policy; a single one may stand there without a list."""
    found = policy.get("Statement", [])
    return found if isinstance(found, list) else [found]


def without(statements: list[Statement], label: str | None) -> list[Statement]:
    """Return the statements that have another label."""
    return [statement for statement in statements if statement.get("Sid") != label]
