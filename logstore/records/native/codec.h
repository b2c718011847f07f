/* What the C files of the native codec share: batches, records, checksums.
 *
 * The Python modules beside this folder are the same codec in Python, and say what the bytes mean:
 * `batch.py` draws a batch's header, `decode.py` a record, `varint.py` a varint. Whatever these
 * files do not accept is "odd": Python then reads the same bytes, and names the fault. So a fault
 * has one text, and a disagreement costs time, never rows.
 *
 * Every pointer into foreign memory is paired with its end, and nothing is read that was not
 * checked against it. Lengths that were read once are kept, never read again without a check:
 * the memory may belong to a writer that changes it at the same time.
 */
#ifndef LOGSTORE_CODEC_H
#define LOGSTORE_CODEC_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_HEADER_BYTES 61
#define BATCH_LENGTH_END 12
#define BATCH_CRC_FROM 21
#define RECORD_BYTES_MIN 7
#define VARINT_BYTES_MAX 10
#define PAYLOAD_BYTES_MAX ((int64_t)1 << 30)

#define CODEC_BITS 0x07
#define CODEC_LAST 4
#define LOG_APPEND_TIME_BIT 0x08
#define CONTROL_BIT 0x20

#define IS_NULL (-1) /* in the place of a length */

#define GIL_BYTES_MIN 4096 /* below, giving the lock away costs more than the work */

enum answer { OK = 0, ODD = -1 };

/* batch.c: headers of record batches */

typedef struct {
    int64_t base_offset;
    int64_t base_timestamp;
    int64_t max_timestamp;
    int64_t size_bytes; /* the whole batch */
    int32_t leader_epoch;
    int32_t last_offset_delta;
    int32_t record_count;
    uint32_t crc;
    int16_t attributes;
} BatchHeader;

int read_batch_header(const uint8_t *data, Py_ssize_t size, BatchHeader *header);
int has_right_crc(const uint8_t *batch, const BatchHeader *header);
void write_batch_header(uint8_t *batch, const BatchHeader *header); /* computes the CRC */

int is_utf8(const uint8_t *p, const uint8_t *end); /* record.c */

/* crc32c.c */

void crc32c_choose(void);
uint32_t crc32c_of(uint32_t initial, const uint8_t *data, size_t size);
PyObject *py_crc32c(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_crc32c_ways(PyObject *module, PyObject *ignored);

/* decoder.c */

enum verdict {
    SKIPPED,     /* nothing in the range: a control batch, or other offsets */
    TAKEN,
    PACKED,      /* sound so far: to be added again, with its payload decompressed */
    FULL,        /* too much for one group: take what is there, then add it again */
    REFUSED,     /* odd */
    OUT_OF_ORDER
};

extern PyType_Spec decoder_spec;

/* encoder.c, lookup.c */

PyObject *py_encode_rows(PyObject *module, PyObject *arguments);
PyObject *py_look_up(PyObject *module, PyObject *arguments);
PyObject *py_check_records(PyObject *module, PyObject *arguments);

/* order.c */

PyObject *py_order_body(PyObject *module, PyObject *entries);
PyObject *py_gather(PyObject *module, PyObject *arguments);

/* hash.c */

PyObject *py_hash_keys(PyObject *module, PyObject *arguments);

/* digest.c */

PyObject *py_digest_keys(PyObject *module, PyObject *arguments);

/* last.c */

PyObject *py_last_rows(PyObject *module, PyObject *arguments);

/* memory that Python lends: a column of an Arrow array, as (start, validity, ends, data) */

typedef struct {
    int64_t start; /* the array begins at this item of its buffers */
    Py_buffer valid, ends, data;
    int is_absent; /* then every item is null */
} Column;

int borrow_column(PyObject *tuple, Column *column); /* arrow.c */
void return_column(Column *column);
int column_spans(const Column *column, int64_t items); /* whether its buffers hold so many */

/* Writes what stands for a key, which is NULL where there is none; OK, or ODD to refuse it. */
typedef int (*PerKey)(const uint8_t *key, int32_t size, uint8_t *out);

/* `width` bytes per item of a column of keys; `arguments`: (count, keys) */
PyObject *for_each_key(PyObject *arguments, size_t width, PerKey write);

static inline int borrow(PyObject *object, Py_buffer *view)
{
    return PyObject_GetBuffer(object, view, PyBUF_SIMPLE);
}

static inline PyObject *refuse_odd(void)
{
    PyErr_SetString(PyExc_ValueError, "odd: to be read with care, which names the fault");
    return NULL;
}

static inline int64_t load_i64(const uint8_t *data)
{
    int64_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

static inline int32_t load_i32(const uint8_t *data)
{
    int32_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

/* Needs `column_spans`. A null has the size IS_NULL. Whether the slice is within what it is a slice
 * of, data or other items, is the caller's to check. */
static inline int column_slice(const Column *column, int64_t item, int32_t *at, int32_t *size)
{
    *at = 0;
    *size = IS_NULL;
    if (column->is_absent)
        return OK;
    int64_t i = column->start + item;
    const uint8_t *valid = column->valid.buf;
    if (valid != NULL && !(valid[i / 8] >> i % 8 & 1))
        return OK;
    const uint8_t *ends = (const uint8_t *)column->ends.buf + 4 * i;
    int32_t low = load_i32(ends), high = load_i32(ends + 4);
    if (low < 0 || low > high)
        return ODD;
    *at = low;
    *size = high - low;
    return OK;
}

#define SHORT_COPY_MAX 256
#define CHUNK_BYTES 32

/* For short copies a call costs more than the bytes: where both sides have room behind them, these
 * go in whole chunks. What is written too much is written over by what comes next. */
static inline void copy_bytes(uint8_t *to, const uint8_t *to_end, const uint8_t *from,
                              const uint8_t *from_end, size_t size)
{
    if (size <= SHORT_COPY_MAX && (size_t)(to_end - to) >= size + CHUNK_BYTES &&
        (size_t)(from_end - from) >= size + CHUNK_BYTES)
        for (size_t done = 0; done < size; done += CHUNK_BYTES)
            memcpy(to + done, from + done, CHUNK_BYTES);
    else
        memcpy(to, from, size);
}

#endif
