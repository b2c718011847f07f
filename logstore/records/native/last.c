/* The last row of each digest, for key compaction: `digests.py` is the same in Python.
 *
 * A table of row numbers with open addressing, at most half full: row `i` is looked for from the
 * place that its digest hashes to. Clients choose keys and may look for digests that share a place;
 * the hash has a seed that they do not know, so they cannot. The answer does not depend on it. */
#include "codec.h"

#define DIGEST_BYTES 16
#define NO_ROW UINT32_MAX
#define ROWS_MAX (1 << 30)

typedef struct {
    const uint8_t *digests, *offsets;
    uint32_t count;
    uint64_t seed;
} Rows;

static inline uint32_t place_of(const Rows *rows, uint32_t row, int bits)
{
    uint64_t low, high;
    memcpy(&low, rows->digests + (size_t)row * DIGEST_BYTES, sizeof low);
    memcpy(&high, rows->digests + (size_t)row * DIGEST_BYTES + sizeof low, sizeof high);
    uint64_t hash = (low ^ rows->seed) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 32 ^ high) * 0xd6e8feb86659fd93u;
    return (uint32_t)(hash >> (64 - bits));
}

static inline int64_t offset_of(const Rows *rows, uint32_t row)
{
    return load_i64(rows->offsets + (size_t)row * sizeof(int64_t));
}

static inline int is_same(const Rows *rows, uint32_t row, uint32_t other)
{
    return memcmp(rows->digests + (size_t)row * DIGEST_BYTES,
                  rows->digests + (size_t)other * DIGEST_BYTES, DIGEST_BYTES) == 0;
}

/* A bit for each row whose offset is the greatest of its digest; `bitmap` is zero before. Needs
 * `places`, 2^bits of NO_ROW, and `place` for each row. */
static void mark_last(const Rows *rows, int bits, uint32_t *places, uint32_t *place,
                      uint8_t *bitmap)
{
    uint32_t mask = (uint32_t)(((uint64_t)1 << bits) - 1);
    for (uint32_t row = 0; row < rows->count; row++) {
        uint32_t at = place_of(rows, row, bits);
        while (places[at] != NO_ROW && !is_same(rows, places[at], row))
            at = (at + 1) & mask;
        if (places[at] == NO_ROW || offset_of(rows, row) > offset_of(rows, places[at]))
            places[at] = row;
        place[row] = at;
    }
    for (uint32_t row = 0; row < rows->count; row++)
        if (offset_of(rows, row) == offset_of(rows, places[place[row]]))
            bitmap[row / 8] |= (uint8_t)(1 << row % 8);
}

static int fill(const Rows *rows, uint8_t *bitmap)
{
    int bits = 1;
    while (((uint64_t)1 << bits) < 2 * (uint64_t)rows->count)
        bits++;
    size_t bytes = ((size_t)1 << bits) * sizeof(uint32_t);
    uint32_t *places = malloc(bytes), *place = malloc(((size_t)rows->count + 1) * sizeof *place);
    int answer = places == NULL || place == NULL ? ODD : OK;
    if (answer == OK) {
        memset(places, 0xff, bytes); /* NO_ROW */
        mark_last(rows, bits, places, place, bitmap);
    }
    free(places);
    free(place);
    return answer;
}

/* Differs from process to process, as Python's own hashes of strings. */
static int draw_seed(uint64_t *seed)
{
    PyObject *text = PyUnicode_FromString("digests of keys");
    if (text == NULL)
        return ODD;
    *seed = (uint64_t)PyObject_Hash(text);
    Py_DECREF(text);
    return OK;
}

/* last_rows(digests, offsets): a bitmap, lowest bit first */
PyObject *py_last_rows(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *given_digests, *given_offsets, *written = NULL;
    Py_buffer digests, offsets;
    Rows rows;
    if (!PyArg_ParseTuple(arguments, "OO", &given_digests, &given_offsets) ||
        draw_seed(&rows.seed) != OK || borrow(given_digests, &digests) < 0)
        return NULL;
    if (borrow(given_offsets, &offsets) < 0) {
        PyBuffer_Release(&digests);
        return NULL;
    }
    Py_ssize_t count = digests.len / DIGEST_BYTES;
    if (digests.len % DIGEST_BYTES || offsets.len != count * (Py_ssize_t)sizeof(int64_t) ||
        count > ROWS_MAX) {
        written = refuse_odd();
    } else if ((written = PyBytes_FromStringAndSize(NULL, (count + 7) / 8)) != NULL) {
        uint8_t *bitmap = (uint8_t *)PyBytes_AsString(written);
        int answer;
        rows.digests = digests.buf;
        rows.offsets = offsets.buf;
        rows.count = (uint32_t)count;
        memset(bitmap, 0, (size_t)(count + 7) / 8);
        Py_BEGIN_ALLOW_THREADS
        answer = fill(&rows, bitmap);
        Py_END_ALLOW_THREADS
        if (answer != OK) {
            Py_DECREF(written);
            written = PyErr_NoMemory();
        }
    }
    PyBuffer_Release(&digests);
    PyBuffer_Release(&offsets);
    return written;
}
