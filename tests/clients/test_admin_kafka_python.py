"""kafka-python's admin client against two brokers: every request it has that we serve."""

from collections.abc import Iterator

import pytest

from tests.clients.two_brokers import two_brokers
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.clients

DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with two_brokers(tmp_path_factory.mktemp("log")) as address:
        yield address


@pytest.mark.parametrize("story", ["cluster", "topics", "configs", "replicas", "records", "acls"])
def test_a_story_ends_well(story: str, bootstrap: str) -> None:
    with Process(("tests.clients.admin_stories", story, "--bootstrap", bootstrap)) as child:
        child.wait_for("^done$", deadline_s=DEADLINE_S)
