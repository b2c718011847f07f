"""Changes of users by commands, on the registry itself."""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from logstore.config.compaction_interval import seconds_of
from logstore.errors import Invalid
from logstore.formats.user_row import (
    USERS_CHANGED,
    Credentials,
    ScramCredential,
    Users,
    user_row_of,
)
from logstore.ports.clock import SystemClock
from logstore.protocol.rows.changes import publish
from logstore.protocol.rows.users import change_users, read_users
from logstore.runners.step_runner import StepRunner
from logstore.security.scram import Verifier, salted_password, verifier_of
from logstore.wiring.open import open_existing

ITERATIONS = 8192
SALT_BYTES = 26
NAME_MAX = 255

T = TypeVar("T")

Decide = Callable[[Users], dict[str, Credentials]]


class UserLine(NamedTuple):
    user: str
    mechanisms: Sequence[str]


@dataclass(frozen=True, slots=True, repr=False)
class NewPassword:
    name: str
    password: str
    mechanisms: Sequence[str]
    """Of `set_password` none: those that the user has."""


def user_lines(url: str, storage: Mapping[str, str]) -> list[UserLine]:
    async def read(runner: StepRunner) -> Users:
        return await runner.run(read_users())

    users = asyncio.run(_with_log(url, storage, read))
    return [UserLine(name, sorted(users[name])) for name in sorted(users)]


def change(url: str, storage: Mapping[str, str], name: str, decide: Decide) -> None:
    """Change the row of a user, and have brokers read it."""

    async def work(runner: StepRunner) -> None:
        await runner.run(change_users(user_row_of(name), decide))
        await runner.run(publish([USERS_CHANGED]))

    asyncio.run(_with_log(url, storage, work))


async def _with_log(
    url: str, storage: Mapping[str, str], work: Callable[[StepRunner], Awaitable[T]]
) -> T:
    clock = SystemClock()
    log = await open_existing(url, clock=clock, rng=random.Random(), storage=storage)
    try:
        return await work(log.runner)
    finally:
        await log.close()


def kept_ms(text: str | None) -> int:
    """Raises `Invalid`."""
    if text is None:
        return 0
    try:
        return round(seconds_of(text) * 1000)
    except ValueError as error:
        raise Invalid(f"--keep-previous: {error}") from None


def add_user(new: NewPassword) -> Decide:
    """Refuses one that is there."""
    _check_name(new.name)
    credentials = {
        mechanism: ScramCredential(_verifier(mechanism, new.password))
        for mechanism in new.mechanisms
    }

    def decide(users: Users) -> dict[str, Credentials]:
        if new.name in users:
            raise Invalid(
                f"user {new.name} is there; for another password: logstore users set-password"
            )
        return {**users, new.name: credentials}

    return decide


def set_password(new: NewPassword, keep_ms: int) -> Decide:
    """`keep_ms`: for how long the password before counts too."""

    def decide(users: Users) -> dict[str, Credentials]:
        known = _known(users, new.name)
        changed = dict(known)
        for mechanism in new.mechanisms or known:
            changed[mechanism] = _changed(known.get(mechanism), mechanism, new.password, keep_ms)
        return {**users, new.name: changed}

    return decide


def delete_user(name: str) -> Decide:
    def decide(users: Users) -> dict[str, Credentials]:
        _known(users, name)
        return {other: one for other, one in users.items() if other != name}

    return decide


def _known(users: Users, name: str) -> Credentials:
    known = users.get(name)
    if known is None:
        raise Invalid(f"no such user: {name}; see: logstore users list")
    return known


def _changed(
    known: ScramCredential | None, mechanism: str, password: str, keep_ms: int
) -> ScramCredential:
    if known is None or not keep_ms:
        return ScramCredential(_verifier(mechanism, password))
    before = known.verifier
    # The exchange begins with salt and iterations, so both passwords have the same ones.
    salted = salted_password(mechanism, password, before.salt, before.iterations)
    verifier = verifier_of(mechanism, salted, before.salt, before.iterations)
    return ScramCredential(verifier, before, SystemClock().now_ms() + keep_ms)


def _verifier(mechanism: str, password: str) -> Verifier:
    salt = secrets.token_urlsafe(SALT_BYTES)[:SALT_BYTES].encode()
    salted = salted_password(mechanism, password, salt, ITERATIONS)
    return verifier_of(mechanism, salted, salt, ITERATIONS)


def _check_name(name: str) -> None:
    if not name or len(name) > NAME_MAX or not name.isprintable():
        raise Invalid(f"a user's name has 1 to {NAME_MAX} characters that can be printed")
