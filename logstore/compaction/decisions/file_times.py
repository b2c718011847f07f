"""When the store took those files of a table whose rows have no timestamps: their age. Pure."""

from logstore.compaction.decisions.clean_rules import CleanRules, undated
from logstore.history.forms.snapshot import Snapshot
from logstore.protocol.deletion.retention_sweep import written_ms
from logstore.protocol.steps import Steps


def file_times(
    snapshot: Snapshot, partition: int, rules: CleanRules, now_ms: int
) -> Steps[dict[str, int]]:
    """Returns the times by path of the files that decide where the range to clean ends.

    Nothing is asked where the topic has no lag. Raises as the store does, and `undated`.
    """
    files, before = snapshot.files.get(partition, ()), snapshot.cleaned.get(partition, 0)
    times: dict[str, int] = {}
    while path := undated(files, before, rules, now_ms, times):
        times[path] = yield from written_ms(snapshot.key_of(path), now_ms)
    return times
