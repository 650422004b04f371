"""What goes wrong, in AWS's words: a type for JSON, a code for Query, a status, and a message."""

from __future__ import annotations

from typing import Literal

import msgspec

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
    QueueExists,
    QueueNotFound,
    SqewError,
    StaleLease,
    StoreBusy,
    StoreFull,
    TooLarge,
    WrongContentType,
)
from sqew.http.exchange import Headers, Response
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
    """A refusal in AWS's words. ``type`` is the name of its shape; its code in Query follows from that."""

    code = "aws"

    def __init__(self, type: str, message: str, status: int = 400, code: str = "") -> None:
        self.type, self.status = type, status
        self.aws_code = code or _LEGACY.get(type, type)
        super().__init__(message)


def invalid_value(message: str) -> AwsError:
    return AwsError("InvalidParameterValueException", message)


def missing(parameter: str) -> AwsError:
    return AwsError("MissingRequiredParameterException", f"The request must contain the parameter {parameter}.")


def too_long(most: int) -> AwsError:
    return invalid_value(f"One or more parameters are invalid. Reason: Message must be shorter than {most} bytes.")


def in_aws_words(error: SqewError) -> AwsError:
    """The same in AWS's words."""
    match error:
        case AwsError():
            return error
        case AwsAuthError():
            return AwsError(error.aws_code, str(error), error.status)
        case QueueNotFound():
            return AwsError("QueueDoesNotExist", "The specified queue does not exist.")
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
        case StoreBusy() | StoreFull():
            return AwsError("ServiceUnavailable", str(error), 503)
        case _:
            status = status_of(error)
            return AwsError("InternalFailure" if status >= 500 else type(error).__name__, str(error), status)


def refusal(
    wire: Wire, namespace: str, said: AwsError, request_id: str, service: str = "sqs", extra: Headers = ()
) -> Response:
    """The answer that refuses."""
    fault = "Receiver" if said.status >= 500 else "Sender"
    if wire == "json":
        kind = f"com.amazonaws.{service}#{said.type}"
        body = msgspec.json.encode({"__type": kind, "message": str(said)})
        headers: Headers = (
            (b"x-amzn-errortype", kind.encode()),
            (b"x-amzn-query-error", f"{said.aws_code};{fault}".encode()),
            (b"x-amzn-requestid", request_id.encode()),
        )
        return Response(said.status, body, JSON_TYPE, headers + extra)
    message = str(said)
    if said.type == "QueueDoesNotExist":
        message += " for this wsdl version." if not message.endswith("version.") else ""
        message = message.replace("exist. for", "exist for")
    text = (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{namespace}"><Error><Type>{fault}</Type>'
        f"<Code>{_escape(said.aws_code)}</Code><Message>{_escape(message)}</Message><Detail/></Error>"
        f"<RequestId>{_escape(request_id)}</RequestId></ErrorResponse>"
    )
    headers = ((b"x-amzn-requestid", request_id.encode()),)
    return Response(said.status, text.encode(), XML_TYPE, headers + extra)


def _escape(text: str) -> str:
    if not text.isprintable():
        # What somebody has sent and XML can't hold.
        text = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
