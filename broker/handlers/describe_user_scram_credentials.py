"""DescribeUserScramCredentials, version 0: users that log in by SCRAM, of which there are none.

No names ask for all users. `kafka-configs --entity-type users` asks beside DescribeClientQuotas.
Not done: authentication.
"""

from broker.answers.broker import Broker
from broker.answers.decisions.repeats import counted
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


async def describe_user_scram_credentials(
    broker: Broker, call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    response = DescribeUserScramCredentialsResponse()
    often = await call.finish(counted(user.name for user in request.users or ()))
    async for name, count in call.each(often.items()):
        code, why = ErrorCode.RESOURCE_NOT_FOUND, f"no such user: user={name}"
        if count > 1:
            code, why = ErrorCode.DUPLICATE_RESOURCE, f"a user is named twice: user={name}"
        response.results.append(DescribeUserScramCredentialsResult(name, code, why))
    return response
