"""DescribeUserScramCredentials, version 0: users that log in by SCRAM (KIP-554).

No names ask for all users. `kafka-configs --entity-type users` asks beside DescribeClientQuotas.
Mechanisms and iterations are shown, and nothing by which a password could be guessed.
"""

from broker.answers.broker import Broker
from broker.answers.decisions.repeats import counted
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from logstore.wire.scram_mechanisms import NUMBERS


async def describe_user_scram_credentials(
    broker: Broker, call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    response, users = DescribeUserScramCredentialsResponse(), broker.log.rows.users
    often = await call.finish(counted(user.name for user in request.users or ()))
    async for name in call.each(often or sorted(users)):
        result = DescribeUserScramCredentialsResult(name)
        if often and often[name] > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = f"a user is named twice: user={name}"
        elif name not in users:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = f"no such user: user={name}"
        else:
            result.credential_infos = [
                CredentialInfo(NUMBERS[mechanism], one.verifier.iterations)
                for mechanism, one in sorted(users[name].items())
            ]
        response.results.append(result)
    return response
