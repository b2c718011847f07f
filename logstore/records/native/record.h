/* Records of one payload, one after the other, every length checked before it is used.
 *
 * Accepts what `decode_payload` in decode.py accepts, and nothing else: offset deltas rise and stay
 * below the header's, a record ends where its length says, header names are UTF-8, varints have at
 * most ten bytes (needless ones too) and 64 bits, timestamps are above -2**63.
 */
#ifndef LOGSTORE_RECORD_H
#define LOGSTORE_RECORD_H

#include "codec.h"

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
int ends_well(const RecordCursor *cursor); /* once no record is left */
int read_headers(const RecordCursor *cursor, const uint8_t **at, const uint8_t *stop, Row *row);

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

/* Bytes with their length in front, -1 for null; moves `at` behind them. */
static inline int read_bytes(const uint8_t **at, const uint8_t *end, const uint8_t **start,
                             int32_t *size)
{
    int64_t length;
    if (read_varint(at, end, &length) != OK)
        return ODD;
    *start = *at;
    if (length == IS_NULL) {
        *size = IS_NULL;
        return OK;
    }
    if (length < 0 || length > end - *at)
        return ODD;
    *size = (int32_t)length; /* a payload is below 2**31 bytes */
    *at += length;
    return OK;
}

static inline int read_record_header(const uint8_t **at, const uint8_t *end, RecordHeader *header)
{
    if (read_bytes(at, end, &header->name, &header->name_bytes) != OK)
        return ODD;
    if (header->name_bytes == IS_NULL)
        return ODD;
    return read_bytes(at, end, &header->value, &header->value_bytes);
}

static inline int timestamp_of(const RecordCursor *cursor, int64_t delta, int64_t *timestamp)
{
    int64_t base = cursor->base_timestamp;
    if (cursor->has_append_time)
        *timestamp = cursor->append_time;
    else if (delta >= 0 ? base > INT64_MAX - delta : base < INT64_MIN - delta)
        return ODD;
    else
        *timestamp = base + delta;
    return *timestamp == INT64_MIN ? ODD : OK;
}

/* Needs `records_left` > 0. */
static inline int next_record(RecordCursor *cursor, Row *row)
{
    const uint8_t *at = cursor->at, *start;
    int64_t length, time_delta, offset_delta;
    if (read_varint(&at, cursor->end, &length) != OK)
        return ODD;
    if (length < 1 || length > cursor->end - at)
        return ODD;
    const uint8_t *stop = at + length;
    at++; /* the attributes */
    if (read_varint(&at, stop, &time_delta) != OK || read_varint(&at, stop, &offset_delta) != OK)
        return ODD;
    if (timestamp_of(cursor, time_delta, &row->timestamp) != OK)
        return ODD;
    if (offset_delta <= cursor->last_delta || offset_delta > cursor->delta_max)
        return ODD;
    row->offset = cursor->base_offset + offset_delta;
    if (read_bytes(&at, stop, &start, &row->key_bytes) != OK)
        return ODD;
    row->key_at = (uint32_t)(start - cursor->payload);
    if (read_bytes(&at, stop, &start, &row->value_bytes) != OK)
        return ODD;
    row->value_at = (uint32_t)(start - cursor->payload);
    if (at < stop && *at == 0) {
        at++;
        row->headers_at = row->header_count = 0;
        row->header_name_bytes = row->header_value_bytes = row->header_null_values = 0;
    } else if (read_headers(cursor, &at, stop, row) != OK)
        return ODD;
    if (at != stop)
        return ODD;
    cursor->at = stop;
    cursor->last_delta = offset_delta;
    cursor->records_left--;
    return OK;
}

#endif
