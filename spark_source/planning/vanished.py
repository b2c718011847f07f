"""Topics and partitions of a query that the registry does not show: were they deleted? Pure.

A registry can be lost, or put back from an older copy: it then lacks rows of topics that exist, and
`logstore restore` brings them back (safety rule 12). A query that had left such a topic out would
then read it again from its beginning. So a query that may lose data leaves out a topic only when

    a record says that the topic was deleted, or its row says that it is being deleted, or
    its row is there, and the query does not subscribe to it any more
"""

from collections.abc import Mapping

from logstore.errors import Refused
from logstore.protocol.rules.disposal import Fate
from logstore.protocol.topics.witnesses import TopicFate
from logstore.reading.planning.extents import Extents
from spark_source.planning.choices import TopicChoice
from spark_source.planning.offsets import Position


def vanished(position: Position, extents: Extents, topics: TopicChoice) -> dict[bytes, str]:
    """Names by id of the topics in `position` of which `extents` lack something that `topics` mean.

    `topics` mean all partitions of a topic, or some; those that they do not mean are no loss.
    """
    names = {}
    for name, topic in position.items():
        now = extents.get(name)
        if now is None or now.topic_id != topic.topic_id:
            names[topic.topic_id] = name
            continue
        lacking = topic.next.keys() - now.partitions.keys()
        if any(topics.means_partition(name, number) for number in lacking):
            names[topic.topic_id] = name
    return names


def check_fates(
    names: Mapping[bytes, str], fates: Mapping[bytes, TopicFate], topics: TopicChoice
) -> None:
    """Raises `Refused` where a topic of those that have `vanished` may exist."""
    for topic_id, name in sorted(names.items(), key=lambda item: item[1]):
        fate = fates[topic_id].fate
        if fate is Fate.UNKNOWN or (fate is Fate.LIVE and topics.means(name)):
            lacks = "topic" if fate is Fate.UNKNOWN else "partitions"
            raise Refused(
                f"the registry has no rows of the {lacks} that this query reads, and no record "
                f"says that the topic was deleted: topic={name} id={topic_id.hex()}; the registry "
                "is lost or older than the log: stop the brokers, run: logstore restore, then "
                "start this query again; no record of the topic was skipped"
            )
