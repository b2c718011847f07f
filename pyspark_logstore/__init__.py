"""Where Spark finds `format("logstore")`: it imports every module named `pyspark_*` and asks each
for its `DefaultSource`. One that fails to import hides all others, so this one imports little, and
with a Spark too old for the source it has none.
"""

try:
    from spark_source.source import LogstoreDataSource as DefaultSource
except ImportError:  # before 4.2 Spark lacks what a stream needs
    __all__ = []
else:
    __all__ = ["DefaultSource"]
