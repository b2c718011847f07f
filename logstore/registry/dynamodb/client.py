"""Calls of DynamoDB, one attempt each, for any number of threads; alone in naming botocore.

Its own retries are off: a repeated write would hide that the first attempt may have been done,
and who asks repeats it with the same write id (`registry.retrying`). Each call takes an idle client
or makes one, so there are as many as calls have ever been under way at once, each with a connection
of its own. Credentials come from where the AWS tools look for them.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    SSOError,
    TokenRetrievalError,
)
from botocore.loaders import create_loader
from botocore.session import Session

from logstore.errors import Denied, Invalid, LogstoreError, Refused, Retryable, without_frames
from logstore.masked import masked
from logstore.registry.dynamodb_json.errors import lost, refusal
from logstore.registry.dynamodb_json.url import TableUrl

CONNECT_TIMEOUT_S = 3.0
READ_TIMEOUT_S = 5.0

_loader = create_loader()  # has read the service's model once, for every session

_NO_CREDENTIALS = (
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
_NEVER_SENT = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError)


class DynamoClient:
    """Clients for one table. Nothing is made or read before the first call.

    `profile` names one of the AWS configuration; `region` stands in where the URL says none.
    """

    def __init__(
        self,
        url: TableUrl,
        *,
        profile: str | None = None,
        region: str | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        read_timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        self.url = url
        self._profile = profile
        self._region = url.region or region
        self._config = Config(
            connect_timeout=connect_timeout_s,
            read_timeout=read_timeout_s,
            retries={"mode": "standard", "total_max_attempts": 1},
            max_pool_connections=1,
            tcp_keepalive=True,
            parameter_validation=False,  # requests are checked where they are made
        )
        self._process = os.getpid()
        self._lock = threading.Lock()  # also around the session, which is for one thread
        self._session: Session | None = None
        self._idle: list[Any] = []
        self._closed = False

    def call(self, operation: str, *, writes: bool, **request: Any) -> Mapping[str, Any]:
        """The answer of one attempt at `operation` on the table. Raises `LogstoreError`s."""
        return self.call_many(operation, writes=writes, TableName=self.url.table, **request)

    def call_many(self, operation: str, *, writes: bool, **request: Any) -> Mapping[str, Any]:
        """The same for an operation on many rows, whose request says for each where it is."""
        facts = f"operation={operation} {self._where()}"
        with self._client() as client:
            try:
                answer: Mapping[str, Any] = getattr(client, operation)(**request)
            except ClientError as error:
                raise refusal(error.response, facts, writes=writes) from without_frames(error)
            except BotoCoreError as error:
                text = f"{facts} error={masked(str(error))}"
                raise _no_answer(error, text, writes=writes) from without_frames(error)
        return answer

    def region(self) -> str | None:
        """Where the table is looked for: by URL, else option, else the AWS environment."""
        if self._region is not None:
            return self._region
        with self._lock:
            configured_region = self._opened_session().get_config_variable("region")
        # Other AWS tools read AWS_REGION first; botocore knows only the older name.
        return os.environ.get("AWS_REGION") or configured_region

    def close(self) -> None:
        """Calls under way end as they would have."""
        with self._lock:
            self._closed = True
        self._reconcile()

    @contextmanager
    def _client(self) -> Iterator[Any]:
        if os.getpid() != self._process:
            raise Refused(f"the registry was opened before a fork {self._where()}; open it after")
        client, kept = self._take(), True
        try:
            yield client
        except Denied:
            kept = False
            self._reconcile()
            raise
        finally:
            with self._lock:
                kept = kept and not self._closed
                if kept:
                    self._idle.append(client)
            if not kept:
                client.close()

    def _reconcile(self) -> None:
        """Forget the credentials: they were refused, and may have been corrected since."""
        with self._lock:
            self._session = None
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def _take(self) -> Any:
        with self._lock:
            if self._closed:
                raise Invalid(f"the registry is closed {self._where()}")
            return self._idle.pop() if self._idle else self._new_client()

    def _new_client(self) -> Any:
        try:
            return self._opened_session().create_client(
                "dynamodb",
                region_name=self._region or os.environ.get("AWS_REGION"),
                endpoint_url=self.url.endpoint,
                config=self._config,
            )
        except NoRegionError as error:
            raise Refused(
                f"no region for the registry table={self.url.table}; set AWS_REGION, or write "
                f"dynamodb://{self.url.table}?region=REGION"
            ) from error
        except _NO_CREDENTIALS as error:
            raise Denied(f"no credentials for the registry {self._where()}: {error}") from error
        except (BotoCoreError, ValueError) as error:
            raise Refused(f"the registry cannot be used {self._where()}: {error}") from error

    def _opened_session(self) -> Session:
        if self._session is None:
            session = Session(profile=self._profile)
            session.register_component("data_loader", _loader)
            try:
                session.get_scoped_config()
            except ProfileNotFound as error:
                raise Refused(
                    f"no such AWS profile: profile={self._profile}; check storage.profile"
                ) from error
            self._session = session
        return self._session

    def _where(self) -> str:
        places = [("table", self.url.table), ("region", self._region)]
        places.append(("endpoint", self.url.endpoint))
        return " ".join(f"{name}={value}" for name, value in places if value)


def _no_answer(error: BotoCoreError, facts: str, *, writes: bool) -> LogstoreError:
    if isinstance(error, _NO_CREDENTIALS):
        return Denied(f"no credentials for the registry {facts}")
    if isinstance(error, _NEVER_SENT):
        return Retryable(f"the registry cannot be reached {facts}; check the endpoint and network")
    return lost(facts, writes=writes)
