"""DescribeUserScramCredentials, version 0: users that log in by SCRAM, of which there are none.

No names ask for all users. `kafka-configs --entity-type users` asks beside DescribeClientQuotas.
Not done: authentication.
"""

from broker.answers.nested_answers import answer_nested
from broker.answers.repeats import counted
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.slices import Slices, emptied
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(broker: Services, call: Call, request: DescribeUserScramCredentialsRequest) -> None:
    broker.turns.begin(call, _answer(broker, call, request))


def _answer(
    broker: Services, call: Call, request: DescribeUserScramCredentialsRequest
) -> Slices[None]:
    response = DescribeUserScramCredentialsResponse()
    if not broker.allows(call, Operation.DESCRIBE, *CLUSTER):
        response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        response.error_message = "not allowed to describe users"
        call.answer(response)
        return
    often = yield from counted(one.name for one in request.users or ())
    for name, count in often.items():
        code, why = ErrorCode.RESOURCE_NOT_FOUND, f"no such user: user={name}"
        if count > 1:
            code, why = ErrorCode.DUPLICATE_RESOURCE, f"a user is named twice: user={name}"
        response.results.append(DescribeUserScramCredentialsResult(name, code, why))
        yield
    yield from emptied(often)
    yield from emptied(request.users)
    yield from answer_nested(call, response, ("results",))
