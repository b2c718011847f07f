"""Key compaction through simulated hours: bytes that it writes for each byte that died.

One partition whose keys are written again at random, a share of them in each hour; a tenth of these
are deleted, and new keys come in their place. After each hour a run of `logstore compact` moves and
cleans, so nothing waits to be cleaned. The real code on a store in memory and a virtual clock:
figures count bytes and rows, and are the same on any machine. `--scale` is keys / 100,000.

    written per byte that died   files of the table and objects between tasks that key compaction
                                 wrote, by the bytes of replaced records and tombstones that went
    rows per live key            of the table at the end: replaced records that are still there, and
                                 tombstones
"""

from functools import partial

from benchmarks.contenders import Contenders
from benchmarks.options import Options
from tests.logstore.compaction.churned_log import Churn, churned

KEYS = 100_000
CASES = {
    "1 % an hour, 24 hours": (24, 0.01),
    "1 % an hour, 96 hours": (96, 0.01),
    "10 % an hour, 24 hours": (24, 0.1),
}


def contenders(options: Options) -> Contenders:
    return {
        name: partial(_run, Churn(keys=int(KEYS * options.scale), hours=hours, share=share))
        for name, (hours, share) in CASES.items()
        if name.startswith(options.load)
    }


def _run(churn: Churn) -> dict[str, float]:
    days = churned(churn)
    assert days.state_is_right
    return {
        "written per byte that died": days.written_per_died,
        "rows per live key": days.rows_per_live_key,
        "runs": days.runs,
        "MB that died": days.died_bytes / 1e6,
        "MB written": days.written_bytes / 1e6,
        "tombstones that went": days.dropped_tombstones,
    }
