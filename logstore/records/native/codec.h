/* What the C files of the native codec share: batches, records, checksums.
 *
 * The Python modules beside this folder are the same codec in Python, and say what the bytes mean:
 * `batch.py` draws a batch's header, `decode.py` a record, `varint.py` a varint. Whatever these
 * files do not accept is "odd": Python then reads the same bytes, and names the fault. So a fault
 * has one text, and a disagreement costs time, never rows.
 *
 * Every pointer into foreign memory is paired with its end, and nothing is read that was not
 * checked against it. Lengths that were read once are kept, never read again without a check:
 * the memory may belong to somebody who writes to it meanwhile.
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

/* record.c: records of one payload, one after the other */

#define IS_NULL (-1)

typedef struct {
    int64_t offset;
    int64_t timestamp; /* ms */
    uint32_t batch;    /* number in its group; set by the decoder */
    uint32_t key_at;   /* positions count from the start of the payload */
    int32_t key_bytes; /* or IS_NULL */
    uint32_t value_at;
    int32_t value_bytes; /* or IS_NULL */
    uint32_t headers_at; /* behind their count */
    uint32_t header_count;
    uint32_t header_name_bytes; /* these three are sums */
    uint32_t header_value_bytes;
    uint32_t header_null_values;
} Row;

typedef struct {
    const uint8_t *payload;
    const uint8_t *at;
    const uint8_t *end;
    int64_t base_offset;
    int64_t base_timestamp;
    int64_t append_time;
    int64_t last_delta;
    int64_t delta_max;
    int64_t records_left;
    int has_append_time;
} RecordCursor;

typedef struct {
    const uint8_t *name;
    const uint8_t *value;
    int32_t name_bytes;
    int32_t value_bytes; /* or IS_NULL */
} RecordHeader;

void begin_records(RecordCursor *cursor, const BatchHeader *header, const uint8_t *payload,
                   Py_ssize_t payload_bytes);
int next_record(RecordCursor *cursor, Row *row); /* needs records_left > 0 */
int ends_well(const RecordCursor *cursor);       /* once no record is left */
int is_utf8(const uint8_t *p, const uint8_t *end);
int read_record_header(const uint8_t **at, const uint8_t *end, RecordHeader *header);

/* varints; `record.c` says which bytes are accepted */

int read_long_varint(const uint8_t **at, const uint8_t *end, int64_t *value);

static inline int read_varint(const uint8_t **at, const uint8_t *end, int64_t *value)
{
    const uint8_t *p = *at;
    if (end - p >= 2) { /* nearly all have one or two bytes */
        uint32_t low = p[0];
        if (low < 128) {
            *value = (int64_t)(low >> 1) ^ -(int64_t)(low & 1);
            *at = p + 1;
            return OK;
        }
        uint32_t high = p[1];
        if (high < 128) {
            uint32_t both = (low & 127) | high << 7;
            *value = (int64_t)(both >> 1) ^ -(int64_t)(both & 1);
            *at = p + 2;
            return OK;
        }
    }
    return read_long_varint(at, end, value);
}

static inline uint64_t zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

static inline int varint_bytes(int64_t value)
{
    uint64_t rest = zigzag(value);
    int count = 1;
    while (rest > 127) {
        rest >>= 7;
        count++;
    }
    return count;
}

static inline uint8_t *write_varint(uint8_t *out, int64_t value)
{
    uint64_t rest = zigzag(value);
    while (rest > 127) {
        *out++ = (uint8_t)(rest | 128);
        rest >>= 7;
    }
    *out++ = (uint8_t)rest;
    return out;
}

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

/* encoder.c, lookup.c, murmur2.c */

PyObject *py_encode_rows(PyObject *module, PyObject *arguments);
PyObject *py_look_up(PyObject *module, PyObject *arguments);
PyObject *py_partitions_of(PyObject *module, PyObject *arguments);

/* memory that Python lends: a column of an Arrow array, as (start, validity, ends, data) */

typedef struct {
    int64_t start; /* the array begins at this item of its buffers */
    Py_buffer valid, ends, data;
    int is_absent; /* then every item is null */
} Column;

int borrow_column(PyObject *tuple, Column *column); /* arrow.c */
void return_column(Column *column);
int column_spans(const Column *column, int64_t items); /* whether its buffers hold so many */
int column_slice(const Column *column, int64_t item, int32_t *at, int32_t *size);

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

/* Copies that may take a few bytes more than asked for, where both sides have room for 32. */
static inline void copy_bytes(uint8_t *to, const uint8_t *to_end, const uint8_t *from,
                              const uint8_t *from_end, size_t size)
{
    if (size <= 32 && to_end - to >= 32 && from_end - from >= 32)
        memcpy(to, from, 32);
    else
        memcpy(to, from, size);
}

#endif
