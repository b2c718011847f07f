/* Writes the chosen rows as Arrow's buffers, a few hundred rows of every column at a time.
 *
 * So these rows are still in the processor's nearest cache when the next column wants them. A buffer
 * that is too small, or a payload that was changed since it was read, ends it as odd.
 */
#include "decoder.h"

#define MILLISECONDS_MAX (INT64_MAX / 1000)
#define BLOCK_ROWS 256

/* Rows of one batch. */
typedef struct {
    const Row *rows;
    size_t count;
    size_t first; /* place of the first row in the result */
    const Batch *batch;
} Block;

static int has_room(const Lent *column, size_t items, size_t item_bytes)
{
    return (size_t)(column->end - column->data) / item_bytes >= items;
}

/* Columns of numbers; their room is checked before. */

static void write_offsets(const Block *block, uint8_t *data)
{
    for (size_t i = 0; i < block->count; i++)
        memcpy(data + 8 * (block->first + i), &block->rows[i].offset, 8);
}

static void write_milliseconds(const Block *block, uint8_t *data)
{
    for (size_t i = 0; i < block->count; i++)
        memcpy(data + 8 * (block->first + i), &block->rows[i].timestamp, 8);
}

static void write_microseconds(const Block *block, uint8_t *data)
{
    for (size_t i = 0; i < block->count; i++) {
        int64_t time = block->rows[i].timestamp;
        time = time > MILLISECONDS_MAX ? MILLISECONDS_MAX : time;
        time = time < -MILLISECONDS_MAX ? -MILLISECONDS_MAX : time;
        time *= 1000;
        memcpy(data + 8 * (block->first + i), &time, 8);
    }
}

static void write_same(const Block *block, uint8_t *data, int32_t number)
{
    for (size_t i = 0; i < block->count; i++)
        memcpy(data + 4 * (block->first + i), &number, 4);
}

static void write_numbers(const Block *block, const Lent *columns)
{
    const BatchHeader *header = &block->batch->header;
    if (columns[OFFSETS].data != NULL)
        write_offsets(block, columns[OFFSETS].data);
    if (columns[MICROSECONDS].data != NULL)
        write_microseconds(block, columns[MICROSECONDS].data);
    if (columns[MILLISECONDS].data != NULL)
        write_milliseconds(block, columns[MILLISECONDS].data);
    if (columns[TIMESTAMP_TYPES].data != NULL)
        write_same(block, columns[TIMESTAMP_TYPES].data,
                   (header->attributes & LOG_APPEND_TIME_BIT) != 0);
    if (columns[LEADER_EPOCHS].data != NULL)
        write_same(block, columns[LEADER_EPOCHS].data, header->leader_epoch);
}

static int numbers_have_room(const Lent *columns, size_t count)
{
    static const struct {
        enum column column;
        size_t bytes;
    } widths[] = {
        {OFFSETS, 8}, {MICROSECONDS, 8}, {MILLISECONDS, 8}, {TIMESTAMP_TYPES, 4}, {LEADER_EPOCHS, 4},
    };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const Lent *column = &columns[widths[i].column];
        if (column->data != NULL && !has_room(column, count, widths[i].bytes))
            return 0;
    }
    return 1;
}

/* One binary column while it is written. Arrow's validity bitmaps have 1 where there is a value. */
typedef struct {
    uint8_t *valid; /* or NULL: nothing is null */
    uint8_t *ends;
    uint8_t *data, *at, *data_end;
    size_t count, items;
} Binary;

static int begin_binary(Binary *binary, const Lent *valid, const Lent *ends, const Lent *data,
                        size_t items)
{
    memset(binary, 0, sizeof *binary);
    if (ends->data == NULL)
        return OK; /* not wanted */
    if (data->data == NULL || !has_room(ends, items + 1, 4))
        return ODD;
    if (valid != NULL && valid->data != NULL) {
        if (!has_room(valid, (items + 7) / 8, 1))
            return ODD;
        memset(valid->data, 0, (items + 7) / 8);
        binary->valid = valid->data;
    }
    binary->ends = ends->data;
    binary->data = binary->at = data->data;
    binary->data_end = data->end;
    binary->items = items;
    memset(ends->data, 0, 4);
    return OK;
}

static inline int add_binary(Binary *binary, const uint8_t *from, const uint8_t *from_end,
                             int32_t size)
{
    if (binary->count == binary->items)
        return ODD;
    if (size >= 0) {
        if (size > binary->data_end - binary->at)
            return ODD;
        copy_bytes(binary->at, binary->data_end, from, from_end, (size_t)size);
        binary->at += size;
        if (binary->valid != NULL)
            binary->valid[binary->count / 8] |= (uint8_t)(1u << binary->count % 8);
    } else if (binary->valid == NULL)
        return ODD;
    int32_t end = (int32_t)(binary->at - binary->data);
    memcpy(binary->ends + 4 * ++binary->count, &end, 4);
    return OK;
}

static int write_keys(const Block *block, Binary *wanted)
{
    Binary keys = *wanted; /* a copy, which the compiler may keep in registers */
    const uint8_t *payload = block->batch->payload;
    const uint8_t *payload_end = payload + block->batch->payload_bytes;
    if (keys.ends == NULL)
        return OK;
    for (size_t i = 0; i < block->count; i++) {
        const Row *row = &block->rows[i];
        if (add_binary(&keys, payload + row->key_at, payload_end, row->key_bytes) != OK)
            return ODD;
    }
    *wanted = keys;
    return OK;
}

static int write_values(const Block *block, Binary *wanted)
{
    Binary values = *wanted;
    const uint8_t *payload = block->batch->payload;
    const uint8_t *payload_end = payload + block->batch->payload_bytes;
    if (values.ends == NULL)
        return OK;
    for (size_t i = 0; i < block->count; i++) {
        const Row *row = &block->rows[i];
        if (add_binary(&values, payload + row->value_at, payload_end, row->value_bytes) != OK)
            return ODD;
    }
    *wanted = values;
    return OK;
}

/* Headers are read again here, so their sizes are checked again too. */
typedef struct {
    uint8_t *ends; /* of the lists; NULL: not wanted */
    int32_t end;
    Binary names, values;
} Headers;

static int begin_headers(Headers *headers, const Lent *columns, size_t rows, size_t items)
{
    headers->ends = columns[HEADER_ENDS].data;
    headers->end = 0;
    if (headers->ends == NULL)
        return OK;
    if (!has_room(&columns[HEADER_ENDS], rows + 1, 4) || columns[NAME_ENDS].data == NULL ||
        columns[HEADER_VALUE_ENDS].data == NULL)
        return ODD;
    memset(headers->ends, 0, 4);
    if (begin_binary(&headers->names, NULL, &columns[NAME_ENDS], &columns[NAME_DATA], items) != OK)
        return ODD;
    return begin_binary(&headers->values, &columns[HEADER_VALUE_VALID],
                        &columns[HEADER_VALUE_ENDS], &columns[HEADER_VALUE_DATA], items);
}

static int write_headers(const Block *block, Headers *wanted)
{
    Headers headers = *wanted;
    const uint8_t *payload = block->batch->payload;
    const uint8_t *payload_end = payload + block->batch->payload_bytes;
    if (headers.ends == NULL)
        return OK;
    for (size_t i = 0; i < block->count; i++) {
        const Row *row = &block->rows[i];
        const uint8_t *at = payload + row->headers_at;
        for (uint32_t left = row->header_count; left; left--) {
            RecordHeader header;
            if (read_record_header(&at, payload_end, &header) != OK ||
                add_binary(&headers.names, header.name, payload_end, header.name_bytes) != OK ||
                add_binary(&headers.values, header.value, payload_end, header.value_bytes) != OK)
                return ODD;
        }
        headers.end += (int32_t)row->header_count;
        memcpy(headers.ends + 4 * (block->first + i + 1), &headers.end, 4);
    }
    *wanted = headers;
    return OK;
}

static Block next_block(const Decoder *self, const Row *rows, size_t first, size_t count)
{
    Block block = {rows + first, 1, first, &self->batches[rows[first].batch]};
    while (first + block.count < count && block.count < BLOCK_ROWS &&
           block.rows[block.count].batch == block.rows[0].batch)
        block.count++;
    return block;
}

int write_columns(const Decoder *self, const Lent *columns)
{
    const Row *rows = self->rows + self->row_first;
    size_t count = self->row_last - self->row_first;
    Binary keys, values;
    Headers headers;
    if (!numbers_have_room(columns, count) ||
        begin_binary(&keys, &columns[KEY_VALID], &columns[KEY_ENDS], &columns[KEY_DATA], count) ||
        begin_binary(&values, &columns[VALUE_VALID], &columns[VALUE_ENDS], &columns[VALUE_DATA],
                     count) ||
        begin_headers(&headers, columns, count, (size_t)self->sizes.headers))
        return ODD;
    for (size_t first = 0; first < count;) {
        Block block = next_block(self, rows, first, count);
        write_numbers(&block, columns);
        if (write_keys(&block, &keys) || write_values(&block, &values) ||
            write_headers(&block, &headers))
            return ODD;
        first += block.count;
    }
    return OK;
}
