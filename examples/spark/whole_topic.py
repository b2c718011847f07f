"""A topic as one relation, old and new: what compaction moved to its Delta table, and the tail.

Run it cell by cell (`# %%`) or as a whole, with LOG naming a log that has a topic `orders`. With
Delta in the session history is read by Delta, which prunes files by the filters of a query; without
it the rows are the same.
"""

# %% A session.
import os

from pyspark.sql import SparkSession

from spark_source import configure, create_view, table

LOG = os.environ.get("LOG", "/data/log")
builder: SparkSession.Builder = SparkSession.builder
spark = configure(builder).getOrCreate()

# %% Each record that is committed now, once. The relation stays at this moment, however often it is
# read, also while records move to it.
orders = table(spark, LOG, "orders")
orders.printSchema()
records = orders.count()

# %% For SQL: a view. Made again, it is of a later moment.
create_view(spark, LOG, "orders", "all_orders")
by_partition = spark.sql(
    "select partition, min(offset) as first, max(offset) as last, count(*) as records "
    "from all_orders group by partition order by partition"
)
by_partition.show()

# %% By SQL alone, for all who share the catalog: a table says which columns, a view which topic.
# Each query sees what is committed when it begins.
spark.sql(
    "create table if not exists logstore_records "
    "(partition int, offset bigint, timestamp timestamp, value binary) using logstore"
)
spark.sql(
    "create or replace view live_orders as select * from logstore_records "
    f"with (path='{LOG}', subscribe='orders')"
)
latest = spark.sql("select partition, max(timestamp) as latest from live_orders group by partition")
latest.show()
