"""A topic as a table: batch reads, JSON in values, SQL, a span of time.

Run it cell by cell (`# %%`) or as a whole, with LOG naming a log that has a topic `orders` whose
values are JSON such as {"id": 7, "city": "Oslo", "amount": 12.5}.
"""

# %% A session. `configure` sets what matters to the source; pip has installed all there is.
import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_source import configure, read_topic

LOG = os.environ.get("LOG", "/data/log")
builder: SparkSession.Builder = SparkSession.builder
spark = configure(builder).getOrCreate()

# %% Everything in the topic, as it lies in the log now. No broker has to run.
orders = read_topic(spark, LOG, "orders")
orders.printSchema()

# %% Values are bytes. Here they are JSON.
rows = orders.select(
    "partition",
    "offset",
    "timestamp",
    f.from_json(f.col("value").cast("string"), "id long, city string, amount double").alias("o"),
).select("partition", "offset", "timestamp", "o.*")
by_city = rows.groupBy("city").agg(f.sum("amount").alias("amount")).orderBy("city")
by_city.show()

# %% The same in SQL.
spark.sql(
    "create or replace temporary view orders_log using logstore "
    f"options (path '{LOG}', subscribe 'orders')"
)
count_by_partition = spark.sql(
    "select partition, count(*) as records, max(offset) as last from orders_log "
    "group by partition order by partition"
)
count_by_partition.show()

# %% Only what was written from a time on. Spark does not tell a Python source its filters, so say
# it by an option: this reads the end of each partition, not all of it.
times = read_topic(spark, LOG, "orders", columns=["timestamp"])
(span,) = times.selectExpr(
    "unix_millis(min(timestamp)) as first", "unix_millis(max(timestamp)) as last"
).collect()
middle = (span["first"] + span["last"]) // 2
recent = read_topic(
    spark,
    LOG,
    "orders",
    startingTimestamp=middle,
    startingOffsetsByTimestampStrategy="latest",
)
recent_count = recent.count()
