"""Differences between Apache Kafka and a broker of ours that stay, each with its reason.

The first that covers a difference explains it. One that explains none is removed: the test of this
list fails then, as it does for a difference that none explains.
"""

from tests.clients.differential.compare import Accepted

_SESSION = r"Fetch v\d+ "
_NOT_SERVED = r"\[(17|2[4-8]|36|38|39|4[01]|51|65|6[89]|7[6-9]|8[01]|8[3-9]|9[0-2])\]"
_TOPICS = r"(\[(wrong-\d+|pl[._]ain[._]x)(/2)?\]|\.count$)"
"""Of topics that one of the two refuses."""

ACCEPTED = (
    Accepted(
        r"ApiVersions .*",
        rf"api_keys(\.count|{_NOT_SERVED}.*)",
        "APIs of transactions, newer groups, controllers and tokens are not served",
    ),
    Accepted(
        r"ApiVersions .*",
        r"(supported|finalized)_features.*",
        "Kafka's features go with those APIs; the format level is ours",
    ),
    Accepted(
        r"UpdateFeatures .* transactions of version 2",
        r"(error_code|results.*)",
        "a feature whose APIs are not served is refused",
    ),
    Accepted(r".*", r".*error_message", "texts are our own, also where Kafka says nothing"),
    Accepted(r"Produce .*", r".*\.log_start_offset", "no log start is said beside an error"),
    Accepted(
        r"Produce .* again",
        r".*\.log_append_time_ms",
        "a repeat is answered with a time where its topic stamps records, not elsewhere",
    ),
    Accepted(
        _SESSION + r"(beyond the end|below the start)",
        r".*\.(high_watermark|last_stable_offset|log_start_offset)",
        "the ends of the log are said beside OFFSET_OUT_OF_RANGE",
    ),
    Accepted(
        _SESSION + r".*",
        r".*\.aborted_transactions",
        "a partition with an error has null instead of an empty list",
    ),
    Accepted(
        _SESSION + r"strange isolation",
        r".*",
        "any isolation but read_committed reads all; Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    Accepted(
        _SESSION + r"a last epoch that diverges",
        r".*",
        "nothing that was acknowledged is truncated, so no epoch of a consumer diverges",
    ),
    Accepted(
        _SESSION + r"an epoch that is to come",
        r".*(current_leader|node_endpoints).*",
        "the leader is named beside UNKNOWN_LEADER_EPOCH, too",
    ),
    Accepted(r"ListOffsets .* twice the same", r".*", "a partition named twice is answered twice"),
    Accepted(
        r"ListGroups .*",
        r"groups(\[strange-\d\].*|\.count)",
        "a member that is refused makes no empty group",
    ),
    Accepted(
        r"DescribeTopicPartitions .* an unknown topic",
        r".*authorized_operations",
        "rights are said of topics that are there",
    ),
    Accepted(r"DescribeTopicPartitions .* a strange limit", r".*", "a limit below 1 is refused"),
    Accepted(
        r"CreateTopics .* too many replicas",
        r".*",
        "brokers hold no data: topics may ask for more replicas than there are brokers",
    ),
    Accepted(
        r"CreateTopics .* alike but for a dot",
        r".*",
        "names that collide in metrics are refused within one request, too",
    ),
    Accepted(
        r"(CreateTopics|DescribeConfigs) .*",
        r".*(configs\.count|logstore\..*)",
        "topics have settings of our own",
    ),
    Accepted(
        r"CreateTopics .*",
        r".*\.config_source",
        "a value that equals the default is a default, also where this broker was given it",
    ),
    Accepted(
        r"DescribeConfigs .* of a topic",
        r".*(config_source|synonyms.*|\.documentation)",
        "synonyms are the settings by which the value is found here",
    ),
    Accepted(
        r"DescribeConfigs .* all brokers",
        r".*",
        "Kafka keeps min.insync.replicas for all brokers by itself (ELR)",
    ),
    Accepted(
        r"DeleteTopics .* neither", r".*", "an id of zeros is unknown, with or without a name"
    ),
    Accepted(
        r"IncrementalAlterConfigs .* a strange operation.*",
        r".*",
        "Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    Accepted(
        r"(Alter|Describe)ClientQuotas .*",
        r".*",
        "an entity of two users is refused; Kafka takes the last one",
    ),
    Accepted(r"DescribeLogDirs .*", r".*\.(total|usable)_bytes", "a store has no size"),
    Accepted(
        r"DescribeCluster .*", r"endpoint_type", "an error repeats the type that was asked for"
    ),
    Accepted(
        r"(ListConfigResources|Metadata) .*", rf".*{_TOPICS}.*", "topics that one of them refuses"
    ),
    Accepted(
        r"DescribeQuorum .*",
        r".*",
        "the log of a quorum is the registry's feed: other offsets, times and listeners",
    ),
    Accepted(
        r"CreateTopics .* only validated", r".*topic_id", "a topic that is not made has no id"
    ),
    Accepted(r"DeleteTopics .* twice the same", r".*", "a topic named twice is answered twice"),
)
