"""AlterUserScramCredentials, version 0: users that log in by SCRAM are set and deleted (KIP-554).

Clients send what they have made of a password, and never the password. Each user has its own
outcome; one with a credential that is named twice is not changed. When the answer leaves, this
broker goes by the change, the others within a second. Errors are those of `ScramControlManager`.
"""

from functools import partial

from broker.answers.broker import Broker
from broker.answers.client_changes import log_change
from broker.answers.decisions.budgets import over_budget
from broker.answers.decisions.refuse import Refuse
from broker.answers.error_codes import code_of
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from broker.requests.refusals import errors_in
from logstore.errors import LogstoreError
from logstore.formats.user_row import (
    USERS_CHANGED,
    Credentials,
    ScramCredential,
    Users,
    user_row_of,
)
from logstore.protocol.rows.users import change_users
from logstore.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, verifier_of
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from logstore.wire.scram_mechanisms import MECHANISMS

APPLIED_S_MAX = 5.0
NAME_MAX = 255
SALT_BYTES_MAX = 256

Item = ScramCredentialDeletion | ScramCredentialUpsertion
Changes = dict[str, dict[str, ScramCredential | None]]
"""By user and mechanism; None: it is deleted."""


async def alter_user_scram_credentials(
    broker: Broker, call: Call, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    refusal = over_budget(call.api.key, len(request.deletions) + len(request.upsertions))
    if not broker.allows(call, Operation.ALTER, *CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        refusal = Refuse(code, "not allowed to change users")
    results: dict[str, AlterUserScramCredentialsResult] = {}
    changes: Changes = {}
    items: list[Item] = [*request.deletions, *request.upsertions]
    async for one in call.each(items):
        result = results.setdefault(one.name, AlterUserScramCredentialsResult(one.name))
        with errors_in(result):
            if refusal is not None:
                raise refusal
            mechanism = MECHANISMS.get(one.mechanism)
            if mechanism is None:
                why = f"no such mechanism: number={one.mechanism}"
                raise Refuse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, why)
            if mechanism in changes.get(one.name, {}):
                why = f"a credential is changed twice: user={one.name} mechanism={mechanism}"
                raise Refuse(ErrorCode.DUPLICATE_RESOURCE, why)
            changes.setdefault(one.name, {})[mechanism] = _credential(one, mechanism)
    wanted = {name: some for name, some in changes.items() if not results[name].error_code}
    await _change(broker, call, wanted, results)
    return AlterUserScramCredentialsResponse(results=list(results.values()))


def _credential(one: Item, mechanism: str) -> ScramCredential | None:
    """Raises `Refuse`."""
    if not one.name or len(one.name) > NAME_MAX:
        raise _unacceptable(f"a user's name has 1 to {NAME_MAX} characters")
    if isinstance(one, ScramCredentialDeletion):
        return None
    salt, salted = bytes(one.salt), bytes(one.salted_password)
    if not ITERATIONS_MIN <= one.iterations <= ITERATIONS_MAX:
        raise _unacceptable(
            f"iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}: iterations={one.iterations}"
        )
    if not 0 < len(salt) <= SALT_BYTES_MAX or not 0 < len(salted) <= SALT_BYTES_MAX:
        raise _unacceptable(f"salt and salted password have 1 to {SALT_BYTES_MAX} bytes")
    return ScramCredential(verifier_of(mechanism, salted, salt, one.iterations))


def _unacceptable(why: str) -> Refuse:
    return Refuse(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)


async def _change(
    broker: Broker,
    call: Call,
    changes: Changes,
    results: dict[str, AlterUserScramCredentialsResult],
) -> None:
    by_row: dict[str, Changes] = {}
    async for name in call.each(changes):
        by_row.setdefault(user_row_of(name), {})[name] = changes[name]
    now: dict[str, Credentials] = {}
    for sk, some in by_row.items():
        missing: set[str] = set()
        try:
            decide = partial(_changed, some, missing)
            row = await broker.log.runner.run(change_users(sk, decide))
        except LogstoreError as error:
            for name in some:
                results[name].error_code, results[name].error_message = code_of(error), str(error)
            continue
        async for name in call.each(some):
            if name in missing:
                results[name].error_code = ErrorCode.RESOURCE_NOT_FOUND
                results[name].error_message = f"no such credential: user={name}"
                continue
            now[name] = row.users.get(name, {})
            log_change(call, "user changed: user=%s mechanisms=%s", name, ",".join(now[name]))
    if now:
        await broker.log.publish([USERS_CHANGED])
        # Another client may change them again first: then ours were applied before, or never are.
        await broker.topic_watch.until(
            lambda: all(broker.log.rows.users.get(name, {}) == one for name, one in now.items()),
            APPLIED_S_MAX,
        )


def _changed(changes: Changes, missing: set[str], users: Users) -> dict[str, Credentials]:
    """Users with the changes; fills `missing` with those of whom a credential is not there."""
    missing.clear()
    wanted = dict(users)
    for name, some in changes.items():
        known = dict(users.get(name, {}))
        if any(one is None and mechanism not in known for mechanism, one in some.items()):
            missing.add(name)
            continue
        for mechanism, one in some.items():
            known.pop(mechanism, None)
            if one is not None:
                known[mechanism] = one
        wanted[name] = known
    return wanted
