"""AWS credentials as AWS's own tools find them, for the S3 client.

    storage.profile named              that profile of ~/.aws: keys, SSO, a role, a process
    keys in the environment            these
    otherwise                          botocore's chain: AWS_PROFILE, web identity, SSO, files,
                                       container and instance roles

The S3 client has a chain of its own, without profiles and SSO, and in another order than the one
the registry's client uses; with one chain for both, one identity is at work. botocore costs 0.4 s
and 26 MiB to import, so keys in the environment are read without it.

botocore renews what expires from 10 minutes before on, so what it gives is good for as long. The
client asks again when a credential has less than 5 minutes to live: hence the time limits below.
"""

import os
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, NotRequired, TypedDict

from logstore.errors import Refused
from logstore.masked import note_secrets
from logstore.ports.clock import SystemClock

ASK_AGAIN = timedelta(seconds=15)
_CLIENT_MARGIN = timedelta(minutes=5)


class Credential(TypedDict):
    """Credentials in obstore's form."""

    access_key_id: str
    secret_access_key: str
    token: NotRequired[str | None]
    expires_at: datetime | None


class AwsCredentials:
    """Gives the current credentials when called, from any thread. Never logs or shows them."""

    def __init__(self, profile: str | None = None) -> None:
        self._profile = profile
        self._lock = threading.Lock()
        self._found: Any = None  # botocore's, which renew themselves

    def __call__(self) -> Credential:
        """Raises what botocore raises, `Refused`, or `LookupError` when there are none."""
        # The client compares this with the machine's time, so no other clock will do.
        now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
        expires_at = now + _CLIENT_MARGIN + ASK_AGAIN
        if self._profile is None and (keys := _keys_of_environment()) is not None:
            note_secrets(keys["secret_access_key"], keys["token"])
            return Credential(**keys, expires_at=expires_at)
        with self._lock:
            if self._found is None:
                self._found = open_session(self._profile).get_credentials()
            if self._found is None:
                raise LookupError("none found")
            frozen = self._found.get_frozen_credentials()
        note_secrets(frozen.secret_key, frozen.token)
        return Credential(
            access_key_id=frozen.access_key,
            secret_access_key=frozen.secret_key,
            token=frozen.token,
            expires_at=expires_at,
        )

    def look_again(self) -> None:
        """Forget the credentials: they were refused, and may have been corrected since."""
        with self._lock:
            self._found = None


def open_session(profile: str | None) -> Any:
    """botocore's session on `profile`, or on the environment's. Raises `Refused`."""
    from botocore.exceptions import BotoCoreError  # 0.4 s
    from botocore.session import Session

    session = Session(profile=profile)
    try:
        session.get_scoped_config()
    except BotoCoreError as error:
        raise Refused(
            f"the AWS configuration cannot be used: {error}; check storage.profile and AWS_PROFILE"
        ) from error
    return session


def configured_region(profile: str | None) -> str | None:
    """The region of the profile, if it names one."""
    region = open_session(profile).get_config_variable("region")
    return str(region) if region else None


class _Keys(TypedDict):
    access_key_id: str
    secret_access_key: str
    token: str | None


def _keys_of_environment() -> _Keys | None:
    key = os.environ.get("AWS_ACCESS_KEY_ID")
    secret = os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    return _Keys(
        access_key_id=key,
        secret_access_key=secret,
        token=os.environ.get("AWS_SESSION_TOKEN") or None,
    )
