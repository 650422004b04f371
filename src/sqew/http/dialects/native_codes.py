"""The codes of refusals in the native dialect: the words of the program that its clients were written for."""

from __future__ import annotations

from sqew.errors import (
    BadExpression,
    BadSchedule,
    BadZone,
    CredentialsMissing,
    ScheduleExists,
    SqewError,
    SubscriptionNotFound,
)
from sqew.http.statuses import status_of

_WORDS: tuple[tuple[tuple[type[SqewError], ...], str], ...] = (
    ((BadExpression, BadSchedule, BadZone), "schedule_invalid"),
    ((ScheduleExists,), "schedule_conflict"),
    ((SubscriptionNotFound,), "binding_not_found"),
)
_WORDS_OF_STATUS = {400: "bad_request", 422: "bad_request", 500: "internal_error", 503: "service_unavailable"}
"""For the rest. The header X-Sqew-Error says it more exactly."""


def code_of(error: SqewError, status: int) -> str:
    """The code in a refusal's body: the clients' word for the error, or else its own code."""
    for kinds, word in _WORDS:
        if isinstance(error, kinds):
            return word
    return _WORDS_OF_STATUS.get(status, error.code)


def native_status_of(error: SqewError) -> int:
    """The status of a refusal: as in other dialects, but 403 for a request that does not say who sends it."""
    return 403 if isinstance(error, CredentialsMissing) else status_of(error)
