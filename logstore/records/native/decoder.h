/* A decoder's state, and the columns that it fills. */
#ifndef LOGSTORE_DECODER_H
#define LOGSTORE_DECODER_H

#include "record.h"

#define HEADER_ROW_BYTES 9 /* two Arrow offsets and a bit of validity */
#define RESULT_BYTES 64    /* each column's first Arrow offset, and the ends of bitmaps */

typedef struct {
    Py_buffer stored;
    Py_buffer unpacked;
    const uint8_t *payload;
    Py_ssize_t payload_bytes;
    BatchHeader header;
    int is_packed; /* then `unpacked` holds the payload */
} Batch;

typedef struct {
    int64_t bytes;
    int64_t key_nulls, key_bytes;
    int64_t value_nulls, value_bytes;
    int64_t headers, name_bytes, header_nulls, header_value_bytes;
} Sizes;

typedef struct {
    PyObject_HEAD
    int64_t start, end; /* offsets asked for */
    int64_t rows_max, bytes_max, payload_bytes_max;
    int64_t row_bytes; /* what a row takes beside its keys, values and headers */
    Batch *batches;
    size_t batch_count, batch_capacity;
    size_t batch_next; /* the one being read */
    RecordCursor cursor;
    int64_t waiting_rows, waiting_bytes;
    int64_t next_offset;
    Row *rows;
    size_t row_count, row_capacity;
    size_t row_first, row_last; /* those chosen by take */
    Sizes read;  /* of all rows that are kept */
    Sizes sizes; /* of the chosen ones */
    int is_reading; /* rows of the group were given out */
    int is_checked; /* the group is one large batch, and sound */
    int is_busy;    /* another thread is inside, without the lock */
} Decoder;

/* In the order in which Python lends them. */
enum column {
    OFFSETS,
    MICROSECONDS,
    MILLISECONDS,
    TIMESTAMP_TYPES,
    LEADER_EPOCHS,
    KEY_VALID,
    KEY_ENDS, /* Arrow's offsets: one more than rows */
    KEY_DATA,
    VALUE_VALID,
    VALUE_ENDS,
    VALUE_DATA,
    HEADER_ENDS,
    NAME_ENDS,
    NAME_DATA,
    HEADER_VALUE_VALID,
    HEADER_VALUE_ENDS,
    HEADER_VALUE_DATA,
    COLUMN_COUNT
};

typedef struct {
    uint8_t *data; /* NULL: not wanted */
    uint8_t *end;
} Lent;

int write_columns(const Decoder *self, const Lent *columns); /* columns.c */

#endif
