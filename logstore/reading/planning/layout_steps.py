"""Reads the index pages of a checkpoint that a layout needs."""

from logstore.errors import NotFound
from logstore.formats.checkpoint import Checkpoint
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.steps import Steps
from logstore.reading.planning.layout import LayoutBuilder, is_dense, wanted_pages

PAGES_TOGETHER = 256


def add_checkpoint(builder: LayoutBuilder, cache: IndexCache, front: Checkpoint) -> Steps[None]:
    """Add the window of `front` to `builder`; its pages are read unless almost all are wanted.

    Where they are deleted, as what lies below a trim point is, its segments are read whole: a task
    that finds these deleted too resolves its part again.
    """
    pages = wanted_pages(front, builder.ranges_in(front.from_seq, front.seq))
    if builder.is_full or is_dense(front, sum(page.row_count for _, page in pages)):
        builder.add_whole(front.from_seq, front.spans, pages)
        return
    builder.add_window(front.from_seq, front.spans)
    for at in range(0, len(pages), PAGES_TOGETHER):
        some = pages[at : at + PAGES_TOGETHER]
        try:
            yield from cache.warm([(front, page) for _, page in some])
            for segments, page in some:
                builder.add_rows(segments, (yield from cache.page(front, page)))
        except NotFound:
            builder.add_whole(front.from_seq, front.spans, pages)
            return
