/* Headers of record batches: read, check, write. */
#include "codec.h"

#define MAGIC 2

static int64_t big_i64(const uint8_t *p)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | p[i];
    return (int64_t)value;
}

static uint32_t big_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_big(uint8_t *p, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--) {
        p[i] = (uint8_t)value;
        value >>= 8;
    }
}

/* The checks of `read_header` in batch.py. */
int read_batch_header(const uint8_t *data, Py_ssize_t size, BatchHeader *header)
{
    if (size < BATCH_HEADER_BYTES || data[16] != MAGIC)
        return ODD;
    header->base_offset = big_i64(data);
    header->size_bytes = (int64_t)(int32_t)big_u32(data + 8) + BATCH_LENGTH_END;
    header->leader_epoch = (int32_t)big_u32(data + 12);
    header->crc = big_u32(data + 17);
    header->attributes = (int16_t)(data[21] << 8 | data[22]);
    header->last_offset_delta = (int32_t)big_u32(data + 23);
    header->base_timestamp = big_i64(data + 27);
    header->max_timestamp = big_i64(data + 35);
    header->record_count = (int32_t)big_u32(data + 57);
    if (header->size_bytes < BATCH_HEADER_BYTES || header->size_bytes > size)
        return ODD;
    if ((header->attributes & CODEC_BITS) > CODEC_LAST)
        return ODD;
    if (header->record_count < 0 || header->record_count > (int64_t)header->last_offset_delta + 1)
        return ODD;
    if (header->base_offset > INT64_MAX - 1 - (int64_t)header->last_offset_delta)
        return ODD;
    return OK;
}

int has_right_crc(const uint8_t *batch, const BatchHeader *header)
{
    size_t size = (size_t)header->size_bytes - BATCH_CRC_FROM;
    return crc32c_of(0, batch + BATCH_CRC_FROM, size) == header->crc;
}

/* Of no producer. The payload must be in its place: the CRC is of it, too. */
void write_batch_header(uint8_t *batch, const BatchHeader *header)
{
    put_big(batch, (uint64_t)header->base_offset, 8);
    put_big(batch + 8, (uint64_t)header->size_bytes - BATCH_LENGTH_END, 4);
    put_big(batch + 12, (uint32_t)header->leader_epoch, 4);
    batch[16] = MAGIC;
    put_big(batch + 21, (uint16_t)header->attributes, 2);
    put_big(batch + 23, (uint32_t)header->last_offset_delta, 4);
    put_big(batch + 27, (uint64_t)header->base_timestamp, 8);
    put_big(batch + 35, (uint64_t)header->max_timestamp, 8);
    memset(batch + 43, 0xff, 14); /* producer id, epoch and base sequence: -1 */
    put_big(batch + 57, (uint32_t)header->record_count, 4);
    size_t size = (size_t)header->size_bytes - BATCH_CRC_FROM;
    put_big(batch + 17, crc32c_of(0, batch + BATCH_CRC_FROM, size), 4);
}
