"""How far behind is a query? In numbers for Prometheus, and for Kafka's tools.

Run it cell by cell (`# %%`) or as a whole, with LOG naming a log that has a topic `orders`.
"""

# %%
import os
import threading
import urllib.request

from pyspark.sql import SparkSession

from spark_source import LagListener, configure, read_topic

LOG = os.environ.get("LOG", "/data/log")
builder: SparkSession.Builder = SparkSession.builder
spark = configure(builder).getOrCreate()

# %% A listener hears of every batch of every query of this session, a moment after its end.
has_heard = threading.Event()
lag = LagListener(publish=lambda _: has_heard.set())
spark.streams.addListener(lag)
host, port = lag.serve("127.0.0.1", 0)  # a fixed port where Prometheus is to find it

# %% `commitGroup` shows the same to tools that know consumer groups: `logstore groups`,
# kafka-consumer-groups, Burrow, any lag exporter. It needs a broker that runs; the query does not.
orders = read_topic(
    spark, LOG, "orders", stream=True, startingOffsets="earliest", commitGroup="orders-to-nowhere"
)
query = orders.writeStream.format("noop").queryName("to nowhere").start()
query.processAllAvailable()

# %%
assert has_heard.wait(60), "no batch was reported"
with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as answer:
    metrics = answer.read().decode()
lags = lag.lags()

# %%
query.stop()
lag.close()
spark.streams.removeListener(lag)
