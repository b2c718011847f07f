/* The order in which a segment stores its batches, and the copy into it: `formats/body_order.py`,
 * which draws both and has the twins, and `formats/segment.py`, which draws an index entry.
 *
 * Positions and lengths come from an index that this process packed. They are checked all the same:
 * sums do not overflow, and nothing is copied from outside the body or to outside its target.
 */
#include "codec.h"

#define ENTRY_BYTES 96
#define KIND_BATCH 1
#define KEY_AT 4 /* partition, topic id, leader epoch */
#define KEY_BYTES 24
#define TOPIC_AT 8
#define TOPIC_BYTES 16
#define LENGTH_AT 28
#define POSITION_AT 32
#define POSITION_BYTES 8

typedef struct {
    const uint8_t *entry;
    size_t number;
} Item;

typedef struct {
    uint64_t start, end;
} Piece;

typedef struct {
    size_t count;
    Item *items;        /* in the stored order: states, then batches */
    Piece *pieces;
    size_t piece_count;
    uint8_t *positions; /* big-endian, by number of the entry, then in the stored order */
} Order;

static uint64_t load_big(const uint8_t *data, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | data[i];
    return value;
}

static void store_big(uint8_t *data, uint64_t value)
{
    for (int i = POSITION_BYTES - 1; i >= 0; i--, value >>= 8)
        data[i] = (uint8_t)value;
}

static int is_batch(const Item *item)
{
    return item->entry[0] == KIND_BATCH;
}

/* By topic, then by the rest of the key, then as they came. */
static int compare(const void *left, const void *right)
{
    const Item *a = left, *b = right;
    int by = is_batch(a) - is_batch(b);
    if (by == 0 && is_batch(a)) {
        by = memcmp(a->entry + TOPIC_AT, b->entry + TOPIC_AT, TOPIC_BYTES);
        if (by == 0)
            by = memcmp(a->entry + KEY_AT, b->entry + KEY_AT, KEY_BYTES);
    }
    if (by == 0)
        by = a->number < b->number ? -1 : 1;
    return by;
}

/* Whether nothing lies between batches of the same topic, in the order they came. */
static int is_together(const Order *order)
{
    for (size_t i = 0; i < order->count;) {
        if (!is_batch(&order->items[i])) {
            i++;
            continue;
        }
        const uint8_t *topic = order->items[i].entry + TOPIC_AT;
        size_t begin = i, first = order->items[i].number, last = first;
        for (; i < order->count; i++) {
            const Item *item = &order->items[i];
            if (memcmp(item->entry + TOPIC_AT, topic, TOPIC_BYTES) != 0)
                break;
            first = item->number < first ? item->number : first;
            last = item->number > last ? item->number : last;
        }
        if (last - first + 1 != i - begin)
            return 0;
    }
    return 1;
}

/* Pieces and positions; ODD where the body would be larger than 2^63 bytes. */
static int lay_out(Order *order)
{
    uint8_t *stored = order->positions + order->count * POSITION_BYTES;
    uint64_t at = 0;
    for (size_t i = 0; i < order->count; i++) {
        const Item *item = &order->items[i];
        uint64_t length = load_big(item->entry + LENGTH_AT, 4);
        uint64_t start = load_big(item->entry + POSITION_AT, POSITION_BYTES);
        if (start > INT64_MAX - length || at > INT64_MAX - length)
            return ODD;
        store_big(order->positions + item->number * POSITION_BYTES, at);
        store_big(stored + i * POSITION_BYTES, at);
        size_t count = order->piece_count;
        if (count > 0 && order->pieces[count - 1].end == start)
            order->pieces[count - 1].end = start + length;
        else
            order->pieces[order->piece_count++] = (Piece){start, start + length};
        at += length;
    }
    return OK;
}

/* [(partition, topic id and leader epoch, positions of its batches)] */
static PyObject *epoch_ranges_of(const Order *order)
{
    const uint8_t *stored = order->positions + order->count * POSITION_BYTES;
    PyObject *found = PyList_New(0);
    for (size_t i = 0; found != NULL && i < order->count;) {
        const uint8_t *key = order->items[i].entry + KEY_AT;
        size_t begin = i++;
        if (!is_batch(&order->items[begin]))
            continue;
        while (i < order->count && memcmp(order->items[i].entry + KEY_AT, key, KEY_BYTES) == 0)
            i++;
        PyObject *pair =
            Py_BuildValue("(y#y#)", (const char *)key, (Py_ssize_t)KEY_BYTES,
                          (const char *)(stored + begin * POSITION_BYTES),
                          (Py_ssize_t)((i - begin) * POSITION_BYTES));
        if (pair == NULL || PyList_Append(found, pair) < 0)
            Py_CLEAR(found);
        Py_XDECREF(pair);
    }
    return found;
}

static PyObject *answer_of(Order *order)
{
    if (lay_out(order) < 0)
        return refuse_odd();
    PyObject *epoch_ranges = epoch_ranges_of(order);
    if (epoch_ranges == NULL)
        return NULL;
    return Py_BuildValue("(y#y#N)", (const char *)order->pieces,
                         (Py_ssize_t)(order->piece_count * sizeof(Piece)),
                         (const char *)order->positions,
                         (Py_ssize_t)(order->count * POSITION_BYTES), epoch_ranges);
}

/* order_body(entries) -> None, or pieces, positions, positions by epoch range */
PyObject *py_order_body(PyObject *module, PyObject *entries)
{
    (void)module;
    Py_buffer view;
    if (borrow(entries, &view) < 0)
        return NULL;
    size_t count = (size_t)view.len / ENTRY_BYTES;
    Order order = {count, malloc((count + 1) * sizeof(Item)), malloc((count + 1) * sizeof(Piece)),
                   0, malloc((2 * count + 1) * POSITION_BYTES)};
    PyObject *answer = NULL;
    if (order.items == NULL || order.pieces == NULL || order.positions == NULL)
        PyErr_NoMemory();
    else if ((size_t)view.len != count * ENTRY_BYTES)
        refuse_odd();
    else {
        for (size_t i = 0; i < count; i++)
            order.items[i] = (Item){(const uint8_t *)view.buf + i * ENTRY_BYTES, i};
        qsort(order.items, count, sizeof(Item), compare);
        answer = is_together(&order) ? Py_NewRef(Py_None) : answer_of(&order);
    }
    free(order.items);
    free(order.pieces);
    free(order.positions);
    PyBuffer_Release(&view);
    return answer;
}

static int copy_pieces(Py_buffer *target, const Py_buffer *source, const Py_buffer *pieces)
{
    uint64_t at = 0, room = (uint64_t)target->len, size = (uint64_t)source->len;
    for (Py_ssize_t i = 0; i + (Py_ssize_t)sizeof(Piece) <= pieces->len; i += sizeof(Piece)) {
        Piece piece;
        memcpy(&piece, (const uint8_t *)pieces->buf + i, sizeof piece);
        if (piece.start > piece.end || piece.end > size || piece.end - piece.start > room - at)
            return ODD;
        memcpy((uint8_t *)target->buf + at, (const uint8_t *)source->buf + piece.start,
               (size_t)(piece.end - piece.start));
        at += piece.end - piece.start;
    }
    return at == room ? OK : ODD;
}

/* gather(target, source, pieces): fills `target` with these of `source`, one after the other */
PyObject *py_gather(PyObject *module, PyObject *arguments)
{
    (void)module;
    Py_buffer target, source, pieces;
    if (!PyArg_ParseTuple(arguments, "w*y*y*", &target, &source, &pieces))
        return NULL;
    int answer = copy_pieces(&target, &source, &pieces);
    PyBuffer_Release(&target);
    PyBuffer_Release(&source);
    PyBuffer_Release(&pieces);
    return answer < 0 ? refuse_odd() : Py_NewRef(Py_None);
}
