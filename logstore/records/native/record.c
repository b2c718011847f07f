/* Records of one payload, one after the other, every length checked before it is used.
 *
 * Accepts what `decode_payload` in decode.py accepts, and nothing else: offset deltas rise and stay
 * below the header's, a record ends where its length says, header names are UTF-8, varints have at
 * most ten bytes (needless ones too) and 64 bits, timestamps are above -2**63.
 */
#include "codec.h"

int read_long_varint(const uint8_t **at, const uint8_t *end, int64_t *value)
{
    const uint8_t *p = *at;
    uint64_t rest = 0;
    for (int i = 0; i < VARINT_BYTES_MAX && p + i < end; i++) {
        uint64_t byte = p[i];
        if (i == VARINT_BYTES_MAX - 1 && byte > 1)
            return ODD;
        rest |= (byte & 127) << 7 * i;
        if (byte < 128) {
            *value = (int64_t)(rest >> 1) ^ -(int64_t)(rest & 1);
            *at = p + i + 1;
            return OK;
        }
    }
    return ODD;
}

/* Strict: no surrogates, no overlong forms, nothing above U+10FFFF. */
int is_utf8(const uint8_t *p, const uint8_t *end)
{
    while (p < end) {
        uint32_t lead = *p++;
        if (lead < 0x80)
            continue;
        int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        if (lead < 0xc2 || lead > 0xf4 || end - p < more)
            return 0;
        uint32_t next = *p;
        if ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) ||
            (lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next > 0x8f))
            return 0;
        for (; more > 0; more--)
            if ((*p++ & 0xc0) != 0x80)
                return 0;
    }
    return 1;
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

int read_record_header(const uint8_t **at, const uint8_t *end, RecordHeader *header)
{
    if (read_bytes(at, end, &header->name, &header->name_bytes) != OK)
        return ODD;
    if (header->name_bytes == IS_NULL)
        return ODD;
    return read_bytes(at, end, &header->value, &header->value_bytes);
}

/* Leaves `at` behind the last header, and their sums in `row`. */
static int read_headers(const RecordCursor *cursor, const uint8_t **at, const uint8_t *stop,
                        Row *row)
{
    int64_t count;
    if (read_varint(at, stop, &count) != OK)
        return ODD;
    if (count < 0 || count > (stop - *at) / 2) /* a header has at least two bytes */
        return ODD;
    row->header_count = (uint32_t)count;
    row->headers_at = (uint32_t)(*at - cursor->payload);
    row->header_name_bytes = row->header_value_bytes = row->header_null_values = 0;
    for (int64_t i = 0; i < count; i++) {
        RecordHeader header;
        if (read_record_header(at, stop, &header) != OK)
            return ODD;
        if (!is_utf8(header.name, header.name + header.name_bytes))
            return ODD;
        row->header_name_bytes += (uint32_t)header.name_bytes;
        if (header.value_bytes == IS_NULL)
            row->header_null_values++;
        else
            row->header_value_bytes += (uint32_t)header.value_bytes;
    }
    return OK;
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

void begin_records(RecordCursor *cursor, const BatchHeader *header, const uint8_t *payload,
                   Py_ssize_t payload_bytes)
{
    cursor->payload = cursor->at = payload;
    cursor->end = payload + payload_bytes;
    cursor->base_offset = header->base_offset;
    cursor->base_timestamp = header->base_timestamp;
    cursor->append_time = header->max_timestamp;
    cursor->has_append_time = (header->attributes & LOG_APPEND_TIME_BIT) != 0;
    cursor->last_delta = -1;
    cursor->delta_max = header->last_offset_delta;
    cursor->records_left = header->record_count;
}

int next_record(RecordCursor *cursor, Row *row)
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

int ends_well(const RecordCursor *cursor)
{
    return cursor->at == cursor->end ? OK : ODD;
}
