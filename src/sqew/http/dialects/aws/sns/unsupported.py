"""Actions of SNS for mobile push, SMS and data protection, refused by name, so that nobody looks for a typing error."""

from __future__ import annotations

from msgspec import Struct, defstruct

from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.refusals import AwsError
from sqew.http.dialects.aws.sns.api import SNS
from sqew.http.wire.exchange import Response

ACTIONS = (
    "CheckIfPhoneNumberIsOptedOut", "CreatePlatformApplication", "CreatePlatformEndpoint",
    "CreateSMSSandboxPhoneNumber", "DeleteEndpoint", "DeletePlatformApplication", "DeleteSMSSandboxPhoneNumber",
    "GetDataProtectionPolicy", "GetEndpointAttributes", "GetPlatformApplicationAttributes", "GetSMSAttributes",
    "GetSMSSandboxAccountStatus", "ListEndpointsByPlatformApplication", "ListOriginationNumbers",
    "ListPhoneNumbersOptedOut", "ListPlatformApplications", "ListSMSSandboxPhoneNumbers", "OptInPhoneNumber",
    "PutDataProtectionPolicy", "SetEndpointAttributes", "SetPlatformApplicationAttributes", "SetSMSAttributes",
    "VerifySMSSandboxPhoneNumber",
)  # fmt: skip


def refuse(call: AwsCall, _given: Struct) -> Response:
    raise AwsError(
        "UnsupportedOperation",
        f"The action {call.action.name} is not supported here: mobile push, SMS and data protection are AWS's own. "
        "Topics, subscriptions to queues (sqs) and to endpoints (http, https), and publishing to topics are supported.",
        code="UnsupportedOperation",
    )


for _name in ACTIONS:
    SNS.action(defstruct(_name, []))(refuse)
