"""A job on format("kafka"), moved: another name, another address, all other options as they were.

Run it cell by cell (`# %%`) or as a whole, with LOG naming a log that has a topic `orders`.
docs/migrating-from-kafka-source.md has the differences.
"""

# %%
import os
from typing import Any

from pyspark.sql import SparkSession

from spark_source import configure

LOG = os.environ.get("LOG", "/data/log")
builder: SparkSession.Builder = SparkSession.builder
spark = configure(builder).getOrCreate()

# %% What the job said to Kafka's source.
was: dict[str, Any] = {
    "kafka.bootstrap.servers": "broker-1:9092,broker-2:9092",
    "kafka.fetch.max.bytes": "67108864",
    "kafka.isolation.level": "read_committed",
    "subscribe": "orders",
    "startingOffsets": "earliest",
    "includeHeaders": "true",
    "maxOffsetsPerTrigger": "100000",
    "failOnDataLoss": "true",
}

# %% What it says now. Settings of Kafka clients may stay: one line in the log says that they do
# nothing here.
now = {**was, "path": LOG}
rows = spark.readStream.format("logstore").options(**now).load()
query = rows.writeStream.format("memory").queryName("moved").trigger(availableNow=True).start()
query.awaitTermination()
moved_count = spark.table("moved").count()
