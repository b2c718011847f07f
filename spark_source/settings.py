"""Settings of a Spark session that matter to the source, and why."""

import importlib.metadata
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

Builder = TypeVar("Builder")


@dataclass(frozen=True, slots=True)
class SparkSetting:
    """`preset` is Spark's default."""

    name: str
    value: str
    preset: str
    reason: str


SETTINGS = (
    SparkSetting(
        "spark.python.unix.domain.socket.enabled",
        "true",
        "false",
        "a Python task costs 11 to 25 ms instead of 50, a micro-batch 110 instead of 150",
    ),
)
FILTERS = "spark.sql.python.filterPushdown.enabled"
SHUFFLE = "spark.sql.shuffle.partitions"
SHUFFLE_PRESET = "200"
LOCAL = "local"
REMOTE = "remote"


def configure(builder: Builder) -> Builder:
    """A session's builder with `SETTINGS`; they count from its Java's start on.

    With a local master, executors run the interpreter that runs here, unless PYSPARK_PYTHON names
    another. Executors of a cluster have their own paths: nothing is set for them. So name the
    master first.
    """
    options: Mapping[str, object] = getattr(builder, "_options", {})
    if master_of(options, os.environ).startswith(LOCAL):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    made = builder
    for setting in SETTINGS:
        made = made.config(setting.name, setting.value)  # type: ignore[attr-defined]
    return made


def master_of(options: Mapping[str, object], environment: Mapping[str, str]) -> str:
    """Where a session will run, before it does, as Spark decides it; "" where only Spark knows.

    From the builder's options, Spark Connect's address, the arguments of spark-submit, the file
    spark-defaults.conf, in this order; local without any of them.
    """
    if environment.get("SPARK_REMOTE") or options.get("spark.remote"):
        return REMOTE
    if master := options.get("spark.master"):
        return str(master)
    if environment.get("PYSPARK_GATEWAY_PORT"):
        return ""  # spark-submit has started this program, and prepared its environment
    arguments = environment.get("PYSPARK_SUBMIT_ARGS", "")
    if match := re.search(r"(?:--master[ =]|spark\.master=)\s*(\S+)", arguments):
        return match[1]
    home = environment.get("SPARK_HOME", "")
    folder = environment.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    file = Path(folder, "spark-defaults.conf")
    defaults = file.read_text() if folder and file.is_file() else ""
    match = re.search(r"^\s*spark\.master[\s=]+(\S+)", defaults, re.MULTILINE)
    return match[1] if match else LOCAL


def parallelism_of(spark: SparkSession) -> int | None:
    """How many tasks a session's executors can run at once; None where only its server knows."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except (AttributeError, PySparkException):  # Spark Connect has no such thing
        cores = spark.conf.get("spark.default.parallelism", None)
        return None if cores is None else int(cores)


def pushes_filters(spark: SparkSession) -> bool:
    """Whether the session hands filters to Python sources, as a reader that takes them needs it."""
    return str(spark.conf.get(FILTERS, "false")).lower() == "true"


def advice(spark: SparkSession) -> list[str]:
    """Settings to change, each with its reason in a line; none if all are as advised."""
    lines = [
        f"set {one.name}={one.value} before the session starts: {one.reason}"
        for one in SETTINGS
        if spark.conf.get(one.name, one.preset) != one.value
    ]
    is_local = str(spark.conf.get("spark.master", "")).startswith(LOCAL)
    if is_local and spark.conf.get(SHUFFLE, SHUFFLE_PRESET) == SHUFFLE_PRESET:
        lines.append(
            f"set {SHUFFLE}={2 * (os.cpu_count() or 1)} or so: {SHUFFLE_PRESET}, the default, is "
            "for clusters, and costs a local session that many tasks per shuffle"
        )
    if (version := importlib.metadata.version("pandas")).split(".")[0] > "2":
        lines.append(f"install pandas<3: PySpark 4.2 does not know {version}")
    return lines
