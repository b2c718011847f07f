/* What of reading records is rare, or long: headers, large varints. */
#include "record.h"

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
    for (uint64_t word; end - p >= 8; p += 8) { /* nearly all is ASCII */
        memcpy(&word, p, sizeof word);
        if (word & 0x8080808080808080u)
            break;
    }
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

/* Whether all is ASCII: the last word, or half a word, may overlap the one before. */
static inline int is_ascii(const uint8_t *p, size_t size)
{
    uint64_t word, bits = 0;
    uint32_t half;
    if (size >= sizeof word) {
        for (size_t done = 0; done + sizeof word < size; done += sizeof word) {
            memcpy(&word, p + done, sizeof word);
            bits |= word;
        }
        memcpy(&word, p + size - sizeof word, sizeof word);
        bits |= word;
    } else if (size >= sizeof half) {
        memcpy(&half, p, sizeof half);
        bits = half;
        memcpy(&half, p + size - sizeof half, sizeof half);
        bits |= half;
    } else
        for (size_t i = 0; i < size; i++)
            bits |= p[i];
    return !(bits & 0x8080808080808080u);
}

/* Leaves `at` behind the last header, and their sums in `row`. */
int read_headers(const RecordCursor *cursor, const uint8_t **at, const uint8_t *stop,
                        Row *row)
{
    int64_t count;
    if (read_varint(at, stop, &count) != OK)
        return ODD;
    if (count < 0 || count > (stop - *at) / 2) /* a header has at least two bytes */
        return ODD;
    const uint8_t *p = *at; /* this and the sums are kept in registers */
    uint32_t name_bytes = 0, value_bytes = 0, null_values = 0;
    for (int64_t left = count; left; left--) {
        RecordHeader header;
        if (read_record_header(&p, stop, &header) != OK)
            return ODD;
        if (!is_ascii(header.name, (size_t)header.name_bytes) &&
            !is_utf8(header.name, header.name + header.name_bytes))
            return ODD;
        name_bytes += (uint32_t)header.name_bytes;
        if (header.value_bytes == IS_NULL)
            null_values++;
        else
            value_bytes += (uint32_t)header.value_bytes;
    }
    row->header_count = (uint32_t)count;
    row->headers_at = (uint32_t)(*at - cursor->payload);
    row->header_name_bytes = name_bytes;
    row->header_value_bytes = value_bytes;
    row->header_null_values = null_values;
    *at = p;
    return OK;
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

int ends_well(const RecordCursor *cursor)
{
    return cursor->at == cursor->end ? OK : ODD;
}
