"""Errors in the words of SNS."""

from __future__ import annotations

from sqew.errors import (
    BadFilterPolicy,
    FilterLimitExceeded,
    Invalid,
    Limited,
    OutcomeUnknown,
    SqewError,
    SubscriptionExists,
    SubscriptionNotFound,
    TopicNotFound,
)
from sqew.http.dialects.aws.refusals import PREFIX, AwsError, in_aws_words

MOST_FOR_LARGE = 100
"""The most subscriptions that a topic may have, as in AWS, if its messages may be larger than 256 KiB."""


def invalid(reason: str) -> AwsError:
    """Return the error of a wrong parameter: ``Invalid parameter: `` and the reason."""
    return AwsError("InvalidParameterException", f"Invalid parameter: {reason}", code="InvalidParameter")


def too_large_for_subscribers() -> AwsError:
    return invalid(
        "MaximumMessageSize Reason: a topic whose messages may be larger than 256 KiB may have "
        f"{MOST_FOR_LARGE} subscriptions, all of queues (sqs)"
    )


def not_found(what: str) -> AwsError:
    return AwsError("NotFoundException", f"{what} does not exist", 404, "NotFound")


def bad_value(message: str) -> AwsError:
    """Return the error of a message attribute with a wrong value."""
    return AwsError("InvalidParameterValueException", message, code="ParameterValueInvalid")


def in_sns_words(error: SqewError) -> AwsError:
    """Convert an error into the words of SNS."""
    match error:
        case AwsError():
            return _of_sns(error)
        case TopicNotFound():
            return not_found("Topic")
        case SubscriptionNotFound():
            return not_found("Subscription")
        case SubscriptionExists():
            return invalid("Attributes Reason: Subscription already exists with different attributes")
        case BadFilterPolicy():
            return invalid(error.reason)
        case FilterLimitExceeded():
            return AwsError("FilterPolicyLimitExceededException", str(error), 403, "FilterPolicyLimitExceeded")
        case Limited():
            return AwsError("ThrottledException", str(error), 429, "Throttled")
        case Invalid():
            return invalid(str(error))
        case OutcomeUnknown():
            return AwsError("InternalErrorException", error.public_text, 503, "InternalError")
        case _:
            return in_aws_words(error)


def _of_sns(error: AwsError) -> AwsError:
    """Convert an error from the words of SQS, in which it is raised before the service is known, into those of SNS."""
    if error.parameter:
        name = error.parameter
        constraint = (
            f"Value null at '{name[:1].lower()}{name[1:]}' failed to satisfy constraint: Member must not be null"
        )
        return AwsError("ValidationException", f"1 validation error detected: {constraint}", code="ValidationError")
    if error.aws_code == "InvalidParameterValue":
        return invalid(str(error))
    if error.aws_code.startswith(PREFIX):
        return AwsError(error.type, str(error), error.status, error.aws_code.removeprefix(PREFIX))
    return error
