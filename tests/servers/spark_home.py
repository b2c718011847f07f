"""A home for the Sparks of tests: the programs and jars of PySpark, and none of its Python modules.

Spark puts `python/lib/pyspark.zip` of its home before all else on its Python workers' path, and
Python keeps no bytecode of what it imports from a zip: the workers of one session and each
streaming query compile PySpark again. From a home without that zip they import the PySpark of the
environment, the same modules: 3 CPU seconds less for a session, half a second for a query.
"""

import importlib.util
from contextlib import suppress
from pathlib import Path

HOME = Path(__file__).parents[2] / "build/spark_home"
NEEDED = ("bin", "jars", "sbin")


def spark_home(home: Path = HOME) -> Path:
    """The folder, made of links where it is not there yet."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.submodule_search_locations
    (installed,) = map(Path, spec.submodule_search_locations)
    home.mkdir(parents=True, exist_ok=True)
    for name in NEEDED:
        link = home / name
        if not link.exists():
            link.unlink(missing_ok=True)  # it leads into an environment that is gone
            with suppress(FileExistsError):  # another test process was quicker
                link.symlink_to(installed / name)
    return home
