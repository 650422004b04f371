"""Errors in AWS's words: a type for JSON, a code for Query, a status, and a message."""

from __future__ import annotations

from typing import Literal

from sqew.errors import (
    AwsAuthError,
    BodyTooLarge,
    HeadersTooLarge,
    Invalid,
    KeyMissing,
    Limited,
    MessageNotFound,
    MethodNotAllowed,
    MoveNotFound,
    MoveRunning,
    NotADeadLetterQueue,
    OutcomeUnknown,
    QueueExists,
    QueueNotFound,
    SqewError,
    StaleLease,
    StoreBusy,
    StoreFull,
    StoreTooNew,
    TooLarge,
    WrongContentType,
)
from sqew.http.statuses import status_of

JSON_TYPE = b"application/x-amz-json-1.0"
XML_TYPE = b"text/xml"
Wire = Literal["json", "query"]
PREFIX = "AWS.SimpleQueueService."

_LEGACY = {
    # The type in JSON, where the code that Query (and Error.Code of the SDKs) has is another.
    "QueueDoesNotExist": PREFIX + "NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
    "QueueDeletedRecently": PREFIX + "QueueDeletedRecently",
    "EmptyBatchRequest": PREFIX + "EmptyBatchRequest",
    "TooManyEntriesInBatchRequest": PREFIX + "TooManyEntriesInBatchRequest",
    "BatchEntryIdsNotDistinct": PREFIX + "BatchEntryIdsNotDistinct",
    "InvalidBatchEntryId": PREFIX + "InvalidBatchEntryId",
    "BatchRequestTooLong": PREFIX + "BatchRequestTooLong",
    "PurgeQueueInProgress": PREFIX + "PurgeQueueInProgress",
    "UnsupportedOperation": PREFIX + "UnsupportedOperation",
    "MessageNotInflight": PREFIX + "MessageNotInflight",
    "InvalidParameterValueException": "InvalidParameterValue",
    "MissingRequiredParameterException": "MissingParameter",
}


class AwsError(SqewError):
    """A refusal in AWS's words. ``type`` is the name of its shape; its code in Query follows from that.

    ``parameter`` is the missing parameter, if one is missing.
    """

    code = "aws"

    def __init__(self, type: str, message: str, status: int = 400, code: str = "", parameter: str = "") -> None:
        self.type, self.status, self.parameter = type, status, parameter
        self.aws_code = code or _LEGACY.get(type, type)
        super().__init__(message)


def invalid_value(message: str) -> AwsError:
    return AwsError("InvalidParameterValueException", message)


def missing(parameter: str) -> AwsError:
    message = f"The request must contain the parameter {parameter}."
    return AwsError("MissingRequiredParameterException", message, parameter=parameter)


def no_such_queue() -> AwsError:
    return AwsError("QueueDoesNotExist", "The specified queue does not exist.")


def too_long(most: int) -> AwsError:
    return invalid_value(f"One or more parameters are invalid. Reason: Message must be shorter than {most} bytes.")


def in_aws_words(error: SqewError) -> AwsError:
    """Convert an error into AWS's words."""
    match error:
        case AwsError():
            return error
        case AwsAuthError():
            return AwsError(error.aws_code, str(error), error.status)
        case QueueNotFound():
            return no_such_queue()
        case QueueExists():
            return AwsError("QueueNameExists", str(error))
        case MessageNotFound() | StaleLease():
            return invalid_value(
                "Value for parameter ReceiptHandle is invalid. "
                "Reason: Message does not exist or is not available for visibility timeout change."
            )
        case KeyMissing():
            return invalid_value(
                "The queue should either have ContentBasedDeduplication enabled "
                "or MessageDeduplicationId provided explicitly"
            )
        case NotADeadLetterQueue():
            return invalid_value("Source queue must be configured as a Dead Letter Queue.")
        case MoveRunning():
            return invalid_value(
                "There is already a task running. "
                "Only one active task is allowed for a source queue arn at a given time."
            )
        case MoveNotFound():
            return AwsError("ResourceNotFoundException", "Task does not exist.", 404)
        case BodyTooLarge():
            return too_long(error.most)
        case TooLarge():
            return invalid_value(f"One or more parameters are invalid. Reason: {error}")
        case Limited():
            return AwsError("RequestThrottled", str(error), 403)
        case MethodNotAllowed() | HeadersTooLarge() | WrongContentType():
            # What HTTP itself has a status for.
            return AwsError(type(error).__name__, str(error), status_of(error))
        case Invalid():
            return invalid_value(str(error))
        case StoreBusy() | StoreFull() | StoreTooNew():
            # It was not done.
            return AwsError("ServiceUnavailable", error.public_text, 503)
        case OutcomeUnknown():
            # SDKs repeat it, like any 5xx: a standard queue may get a message twice, as on AWS.
            return AwsError("InternalFailure", error.public_text, 503)
        case _:
            status = status_of(error)
            return AwsError("InternalFailure" if status >= 500 else type(error).__name__, error.public_text, status)
