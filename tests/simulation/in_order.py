"""A pool for code that fetches by threads, where the simulation has none."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class InOrder(Executor):
    """A pool without threads: `submit` carries the call out before it returns."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            result = fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised by `result`
            future.set_exception(error)
        else:
            future.set_result(result)
        return future
