"""Error codes of the native dialect: the words of the program that its clients were written for."""

from __future__ import annotations

from sqew.errors import (
    BadExpression,
    BadSchedule,
    BadZone,
    CredentialsMissing,
    ScheduleExists,
    SqewError,
    SubscriptionNotFound,
    TargetMissing,
)
from sqew.http.statuses import status_of

_WORDS: tuple[tuple[tuple[type[SqewError], ...], str], ...] = (
    ((BadExpression, BadSchedule, BadZone), "schedule_invalid"),
    ((ScheduleExists,), "schedule_conflict"),
    ((SubscriptionNotFound,), "binding_not_found"),
    ((TargetMissing,), "queue_not_found"),
)
_STATUSES: tuple[tuple[type[SqewError], int], ...] = ((CredentialsMissing, 403), (TargetMissing, 404))
_WORDS_OF_STATUS = {400: "bad_request", 422: "bad_request", 500: "internal_error", 503: "service_unavailable"}
"""The codes of all other errors by their status. The header X-Sqew-Error says it more exactly."""


def code_of(error: SqewError, status: int) -> str:
    """Return the code in a refusal's body: the clients' word for the error, or else its own code."""
    for kinds, word in _WORDS:
        if isinstance(error, kinds):
            return word
    return _WORDS_OF_STATUS.get(status, error.code)


def native_status_of(error: SqewError) -> int:
    """Return the status of a refusal: as in other dialects, but for two that the clients expect otherwise.

    It is 403 for a request that does not say who sends it, and 404 if there is no queue to send to: to the clients of
    schedules any 409 says that the name is taken.
    """
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return status_of(error)
