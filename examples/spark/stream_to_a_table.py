"""A topic into a table, exactly once, by a query that can be stopped at any time.

Run it cell by cell (`# %%`) or as a whole, with LOG naming a log that has a topic `orders`, and
TABLE and CHECKPOINT two folders. Parquet needs nothing more; with delta-spark, write "delta".
"""

# %%
import os

from pyspark.sql import SparkSession

from spark_source import configure, read_topic

LOG = os.environ.get("LOG", "/data/log")
TABLE = os.environ.get("TABLE", "/data/orders")
CHECKPOINT = os.environ.get("CHECKPOINT", "/data/checkpoints/orders")
builder: SparkSession.Builder = SparkSession.builder
spark = configure(builder).getOrCreate()

# %% From the beginning of the topic. Where it starts counts once: afterwards the checkpoint says.
orders = read_topic(
    spark,
    LOG,
    "orders",
    stream=True,
    startingOffsets="earliest",
    maxBytesPerTrigger=256 * 1024 * 1024,
)

# %% What is there now, in batches, and then stop: for a job that a scheduler starts.
# `processingTime="10 seconds"` instead of `availableNow=True` goes on for ever.
query = (
    orders.selectExpr("cast(value as string) as json", "partition", "offset", "timestamp")
    .writeStream.format("parquet")
    .option("checkpointLocation", CHECKPOINT)
    .trigger(availableNow=True)
    .start(TABLE)
)
query.awaitTermination()

# %% Every record once, however often this ran and wherever it was killed.
table = spark.read.parquet(TABLE)
records = table.count()
doubled = records - table.select("partition", "offset").distinct().count()
