"""The console in a browser: every figure is the API's, foreign names are text, the policy holds."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from broker.http.console import POLICY
from broker.http.topics_json import TOPICS_A_PAGE
from tests.broker.group_calls import SETTINGS, commit, join, prepare
from tests.broker.http.pages import Pages, pages_of
from tests.broker.running import DEADLINE_S, Running, batch_of, produce, running_broker
from tests.servers.chromium import look, why_no_chromium  # noqa: F401 - in a condition
from tools.full_wire import Connection

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),  # the browser is fetched once
    pytest.mark.skipif(
        "why_no_chromium() is not None",
        reason="a browser needs Debian's packages and npm's, once",
    ),
]

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
EVERY_MS = 5_000
SESSION_MS = 1_800_000
"""The member is to be there for all of the tests, and sends nothing more."""

UNKNOWN = "\N{EN DASH}"
RATES: Mapping[str, object] = {"until": ["#request-note", "Rates and means"]}
FIRST: list[Mapping[str, object]] = [
    {"until": ["#group-table", "readers"]},
    {"tick": EVERY_MS},
    RATES,
]
INLINE = """() => {
  const script = document.createElement("script");
  script.textContent = "window.broken = 1";
  document.body.append(script);
  const image = document.createElement("img");
  image.setAttribute("onerror", "window.broken = 2");
  image.src = "/nothing";
  document.body.append(image);
  return fetch("http://127.0.0.2:1/").catch(() => null);
}"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running_broker(SETTINGS) as running:
        prepare(running)
        for number in range(TOPICS_A_PAGE + 2):
            running.create_topic(f"topic-{number:03}")
        running.create_topic("a-topic", 3)
        with running.connect() as client:
            for partition in (0, 0, 2):
                produce(client, "a-topic", batch_of(b"a", b"b"), partition=partition)
            commit(client, "readers", 1, "a-topic")
            commit(client, "readers", 0, "a-topic", partition=2)
        port = running.listener.port
        with Connection.open("127.0.0.1", port, DEADLINE_S, client_id=HOSTILE) as named:
            join(named, HOSTILE, session_ms=SESSION_MS)
            yield running


@pytest.fixture
def pages(running: Running) -> Iterator[Pages]:
    with pages_of(running) as pages:
        yield pages


def seen_by(pages: Pages, *steps: Mapping[str, object]) -> Any:
    return look(f"http://127.0.0.1:{pages.port}/console", [*FIRST, *steps])


def whole(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def test_every_figure_on_the_page_is_the_apis(pages: Pages) -> None:
    seen = seen_by(
        pages,
        {"fill": ["#topic-name", "a-topic"]},
        {"click": "#topic-form button"},
        {"until": ["#partition-table", "2"]},
        {"read": "all"},
    )["reads"]["all"]
    documents, tables = seen["documents"], seen["tables"]
    cluster = documents["/api/v1/cluster"]
    (broker,) = cluster["brokers"]
    assert tables["broker-table"] == [
        [
            str(broker["id"]),
            "serving",
            f"127.0.0.1:{pages.running.listener.port}",
            "",
            whole(cluster["partitions"]),
            str(pages.running.log.epoch),
            "0 ms",
            broker["version"],
        ]
    ]
    figures = seen["figures"]
    assert figures["Topics"] == whole(len(pages.running.log.topics))
    assert figures["Partitions"] == whole(cluster["partitions"])
    assert figures["Brokers alive"] == "1"
    assert figures["Controller"] == "none"
    assert figures["Without leader"] == "0"
    assert figures["Records in since start"] == "6"
    assert figures["Dollars an hour"].startswith("$")
    topics = documents["/api/v1/topics/1"]["topics"]
    assert tables["topic-table"] == [topic_cells(one) for one in topics]
    assert tables["topic-table"][1] == ["a-topic", "3", "1: 3", "0", "6", "0", "0"]
    partitions = documents["/api/v1/partitions/a-topic/1"]["partitions"]
    assert tables["partition-table"] == [partition_cells(one) for one in partitions]
    assert [row[-1] for row in tables["partition-table"]] == ["4", "0", "2"]
    groups = documents["/api/v1/groups/1"]["groups"]
    assert tables["group-table"] == [group_cells(one) for one in groups]
    assert ["readers", "Empty", "0", "", "5", "a-topic: 5", "0"] in tables["group-table"]
    totals = {api: one["count"] for api, one in cluster["requests"].items()}
    assert {row[0]: row[3] for row in tables["request-table"]} == {
        api: whole(count) for api, count in totals.items()
    }


def topic_cells(one: Any) -> list[str]:
    return [
        one["topic"],
        whole(one["partitions"]),
        ", ".join(
            f"{leader['broker']}: {whole(leader['partitions'])}" for leader in one["leaders"]
        ),
        whole(one["without_leader"]),
        whole(one["offsets_in_segments"]),
        whole(one["offsets_in_table"]),
        whole(one["partitions"] - one["partitions_known"]),
    ]


def partition_cells(one: Any) -> list[str]:
    return [
        str(one["partition"]),
        str(one["leader"]),
        ", ".join(map(str, one["replicas"])),
        str(one["leader_epoch"]),
        whole(one["log_start"]),
        whole(one["table_end"]),
        whole(one["end"]),
    ]


def group_cells(one: Any) -> list[str]:
    return [
        one["group"],
        one["state"],
        whole(one["members"]),
        ", ".join(one["clients"]),
        whole(one["lag"]),
        ", ".join(f"{topic['topic']}: {whole(topic['lag'])}" for topic in one["topics"]),
        whole(one["lag_unknown"]),
    ]


def test_rates_are_those_between_two_documents(pages: Pages) -> None:
    seen = seen_by(pages, {"read": "before"}, {"tick": EVERY_MS}, RATES, {"read": "after"})["reads"]
    first, last = (seen[name]["documents"]["/api/v1/cluster"] for name in ("before", "after"))
    assert last["broker"]["at_s"] > first["broker"]["at_s"]
    rates = {row[0]: row[1] for row in seen["after"]["tables"]["request-table"]}
    quiet = [api for api, one in first["requests"].items() if one == last["requests"][api]]
    assert {rates[api] for api in quiet} == {"0"}


def test_names_of_clients_and_groups_are_text(pages: Pages) -> None:
    seen = seen_by(pages, {"read": "all"})
    rows = seen["reads"]["all"]["tables"]["group-table"]
    assert [(row[0], row[3]) for row in rows if "<" in row[0]] == [(HOSTILE, HOSTILE)]
    assert "SCRIPT" not in seen["reads"]["all"]["tags"]
    assert "IMG" not in seen["reads"]["all"]["tags"]
    assert (seen["dialogs"], seen["errors"], seen["violations"]) == (0, [], [])


def test_the_policy_lets_no_script_of_the_page_and_no_other_server_in(pages: Pages) -> None:
    seen = seen_by(pages, {"run": INLINE}, {"read": "all"})
    assert seen["policy"] == POLICY
    assert {what.split(" ")[0] for what in seen["violations"]} == {
        "script-src-elem",
        "script-src-attr",
        "connect-src",
    }
    ours = f"http://127.0.0.1:{pages.port}/"
    assert [url for url in seen["requests"] if not url.startswith(ours)] in (
        [],
        ["http://127.0.0.2:1/"],  # asked for, and refused by the browser
    )


def test_a_reader_of_the_screen_finds_headings_and_headed_tables(pages: Pages) -> None:
    seen = seen_by(pages, {"read": "all"})["reads"]["all"]
    assert seen["headings"][0] == "H1"
    assert set(seen["headings"][1:]) == {"H2", "H3"}
    assert all(head.startswith("col ") for heads in seen["heads"].values() for head in heads)


def test_pages_of_topics_are_turned(pages: Pages) -> None:
    seen = seen_by(
        pages,
        {"read": "first"},
        {"click": "#topic-pager button:last-child"},
        {"until": ["#topic-pager", "page 2"]},
        {"read": "second"},
    )["reads"]
    rows = [row[0] for name in ("first", "second") for row in seen[name]["tables"]["topic-table"]]
    assert rows == sorted(pages.running.log.topics)
    assert "page 1 of 2" in seen["first"]["pagers"]["topic-pager"]


def test_a_broker_that_is_gone_is_said_and_figures_stay(pages: Pages) -> None:
    seen = seen_by(
        pages,
        {"run": "() => { window.fetch = () => Promise.reject(new Error()); }"},
        {"tick": EVERY_MS},
        {"until": ["#state", "does not answer"]},
        {"read": "all"},
    )["reads"]["all"]
    assert seen["tables"]["broker-table"]
