"""DeleteGroups, versions 0 to 2: groups without members go, each with its own code."""

from broker.answers.client_changes import log_change
from broker.answers.group_requests import coordinator_for
from broker.answers.nested_answers import answer_nested
from broker.answers.services import Services
from broker.groups.coordinator import Coordinator
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(broker: Services, call: Call, request: DeleteGroupsRequest) -> None:
    broker.turns.begin(call, _delete(broker, call, request), in_order=True)


def _delete(broker: Services, call: Call, request: DeleteGroupsRequest) -> Slices[None]:
    results: list[DeletableGroupResult] = []
    touched: dict[Coordinator, list[DeletableGroupResult]] = {}
    for group_id in dict.fromkeys(request.groups_names or ()):
        result = DeletableGroupResult(group_id)
        results.append(result)
        coordinator = coordinator_for(
            broker, call, group_id, Operation.DELETE, may_be_nameless=True
        )
        if isinstance(coordinator, ErrorCode):
            result.error_code = coordinator
        else:
            result.error_code = yield from coordinator.delete_group(group_id)
            touched.setdefault(coordinator, []).append(result)
        yield
    _Answer(broker, call, DeleteGroupsResponse(0, results), touched).begin()


class _Answer:
    """Leaves when all that was deleted is committed."""

    def __init__(
        self,
        broker: Services,
        call: Call,
        response: DeleteGroupsResponse,
        touched: dict[Coordinator, list[DeletableGroupResult]],
    ) -> None:
        self._broker = broker
        self._call = call
        self._response = response
        self._touched = touched
        self._missing_count = len(touched)

    def begin(self) -> None:
        if not self._touched:
            self._leave()
        for coordinator, results in self._touched.items():
            self._wait(coordinator, results)

    def _wait(self, coordinator: Coordinator, results: list[DeletableGroupResult]) -> None:
        def done(code: ErrorCode) -> None:
            for result in results:
                result.error_code = result.error_code or code
                if not result.error_code:
                    log_change(self._call, "group deleted: group=%s", result.group_id)
            self._missing_count -= 1
            if not self._missing_count:
                self._leave()

        coordinator.when_safe(done)

    def _leave(self) -> None:
        slices = answer_nested(self._call, self._response, ("results",))
        self._broker.turns.begin(self._call, slices)
