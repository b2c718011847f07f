"""Compaction on one core: MB of stored batches a CPU-second, from segments in a directory to Parquet.

Tasks are carried out in this process, one after the other, as a worker does. What is measured is
the CPU of the whole process, fetching, decoding, encoding and writing; how many partitions share
the segments is --partitions. Needs no server.
"""

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.cases.decode import batches_like_json
from benchmarks.contenders import Contenders
from benchmarks.options import Options
from logstore.chains.keys import segment_key
from logstore.objects.directory import DirectoryStore
from logstore.pieces import Piece
from logstore.records.batch import check_batch
from logstore.segments.builder import SegmentBuilder
from spark_source.compaction.plan import plan_moves, result_of
from spark_source.compaction.worker import carry_out

VALUE_BYTES = (1000, 100)
LOG_BYTES = 192 << 20
"""Of uncompressed batches."""
