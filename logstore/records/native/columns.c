/* Writes the chosen rows as Arrow's buffers, one column after the other.
 *
 * A buffer that is too small, or a payload that somebody changed since it was read, ends it as odd.
 */
#include "decoder.h"

#define MILLISECONDS_MAX (INT64_MAX / 1000)

typedef struct {
    const Decoder *decoder;
    const Row *rows;
    size_t count;
} Chosen;

static int has_room(const Lent *column, size_t items, size_t item_bytes)
{
    return (size_t)(column->end - column->data) / item_bytes >= items;
}

static const Batch *batch_of(const Chosen *chosen, size_t i)
{
    return &chosen->decoder->batches[chosen->rows[i].batch];
}

static int write_offsets(const Chosen *chosen, const Lent *column)
{
    if (!has_room(column, chosen->count, 8))
        return ODD;
    for (size_t i = 0; i < chosen->count; i++)
        memcpy(column->data + 8 * i, &chosen->rows[i].offset, 8);
    return OK;
}

static int write_milliseconds(const Chosen *chosen, const Lent *column)
{
    if (!has_room(column, chosen->count, 8))
        return ODD;
    for (size_t i = 0; i < chosen->count; i++)
        memcpy(column->data + 8 * i, &chosen->rows[i].timestamp, 8);
    return OK;
}

static int write_microseconds(const Chosen *chosen, const Lent *column)
{
    if (!has_room(column, chosen->count, 8))
        return ODD;
    for (size_t i = 0; i < chosen->count; i++) {
        int64_t time = chosen->rows[i].timestamp;
        time = time > MILLISECONDS_MAX ? MILLISECONDS_MAX : time;
        time = time < -MILLISECONDS_MAX ? -MILLISECONDS_MAX : time;
        time *= 1000;
        memcpy(column->data + 8 * i, &time, 8);
    }
    return OK;
}

static int write_types(const Chosen *chosen, const Lent *column)
{
    if (!has_room(column, chosen->count, 4))
        return ODD;
    for (size_t i = 0; i < chosen->count; i++) {
        int32_t type = (batch_of(chosen, i)->header.attributes & LOG_APPEND_TIME_BIT) != 0;
        memcpy(column->data + 4 * i, &type, 4);
    }
    return OK;
}

static int write_epochs(const Chosen *chosen, const Lent *column)
{
    if (!has_room(column, chosen->count, 4))
        return ODD;
    for (size_t i = 0; i < chosen->count; i++)
        memcpy(column->data + 4 * i, &batch_of(chosen, i)->header.leader_epoch, 4);
    return OK;
}

/* One binary column while it is written. Arrow's validity bitmaps have 1 where there is a value. */
typedef struct {
    uint8_t *valid; /* or NULL: nothing is null */
    uint8_t *ends;
    uint8_t *data, *at, *data_end;
    size_t count;
} Binary;

static int begin_binary(Binary *binary, const Lent *columns, size_t items)
{
    const Lent *valid = &columns[0], *ends = &columns[1], *data = &columns[2];
    if (data->data == NULL || !has_room(ends, items + 1, 4))
        return ODD;
    if (valid->data != NULL) {
        if (!has_room(valid, (items + 7) / 8, 1))
            return ODD;
        memset(valid->data, 0, (items + 7) / 8);
    }
    *binary = (Binary){valid->data, ends->data, data->data, data->data, data->end, 0};
    memset(ends->data, 0, 4);
    return OK;
}

static inline int add_binary(Binary *binary, const uint8_t *from, const uint8_t *from_end,
                             int32_t size)
{
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

static int write_keys(const Chosen *chosen, const Lent *columns)
{
    Binary keys;
    if (begin_binary(&keys, columns, chosen->count) != OK)
        return ODD;
    for (size_t i = 0; i < chosen->count; i++) {
        const Row *row = &chosen->rows[i];
        const Batch *batch = batch_of(chosen, i);
        if (add_binary(&keys, batch->payload + row->key_at, batch->payload + batch->payload_bytes,
                       row->key_bytes) != OK)
            return ODD;
    }
    return OK;
}

static int write_values(const Chosen *chosen, const Lent *columns)
{
    Binary values;
    if (begin_binary(&values, columns, chosen->count) != OK)
        return ODD;
    for (size_t i = 0; i < chosen->count; i++) {
        const Row *row = &chosen->rows[i];
        const Batch *batch = batch_of(chosen, i);
        if (add_binary(&values, batch->payload + row->value_at,
                       batch->payload + batch->payload_bytes, row->value_bytes) != OK)
            return ODD;
    }
    return OK;
}

static int write_header_ends(const Chosen *chosen, const Lent *column)
{
    int32_t end = 0;
    if (!has_room(column, chosen->count + 1, 4))
        return ODD;
    memset(column->data, 0, 4);
    for (size_t i = 0; i < chosen->count; i++) {
        end += (int32_t)chosen->rows[i].header_count;
        memcpy(column->data + 4 * (i + 1), &end, 4);
    }
    return OK;
}

/* Headers are read again here, so their sizes are checked again too. */
static int write_headers(const Chosen *chosen, const Lent *columns)
{
    const Lent name_columns[3] = {{NULL, NULL}, columns[NAME_ENDS], columns[NAME_DATA]};
    size_t items = (size_t)chosen->decoder->sizes.headers;
    Binary names, values;
    if (write_header_ends(chosen, &columns[HEADER_ENDS]) != OK ||
        begin_binary(&names, name_columns, items) != OK ||
        begin_binary(&values, &columns[HEADER_VALUE_VALID], items) != OK)
        return ODD;
    for (size_t i = 0; i < chosen->count; i++) {
        const Batch *batch = batch_of(chosen, i);
        const uint8_t *at = batch->payload + chosen->rows[i].headers_at;
        const uint8_t *end = batch->payload + batch->payload_bytes;
        for (uint32_t left = chosen->rows[i].header_count; left; left--) {
            RecordHeader header;
            if (read_record_header(&at, end, &header) != OK ||
                add_binary(&names, header.name, end, header.name_bytes) != OK ||
                add_binary(&values, header.value, end, header.value_bytes) != OK)
                return ODD;
        }
    }
    return OK;
}

int write_columns(const Decoder *self, const Lent *columns)
{
    const Chosen chosen = {self, self->rows + self->row_first, self->row_last - self->row_first};
    int answer = OK;
    if (columns[OFFSETS].data != NULL)
        answer |= write_offsets(&chosen, &columns[OFFSETS]);
    if (columns[MICROSECONDS].data != NULL)
        answer |= write_microseconds(&chosen, &columns[MICROSECONDS]);
    if (columns[MILLISECONDS].data != NULL)
        answer |= write_milliseconds(&chosen, &columns[MILLISECONDS]);
    if (columns[TIMESTAMP_TYPES].data != NULL)
        answer |= write_types(&chosen, &columns[TIMESTAMP_TYPES]);
    if (columns[LEADER_EPOCHS].data != NULL)
        answer |= write_epochs(&chosen, &columns[LEADER_EPOCHS]);
    if (columns[KEY_ENDS].data != NULL)
        answer |= write_keys(&chosen, &columns[KEY_VALID]);
    if (columns[VALUE_ENDS].data != NULL)
        answer |= write_values(&chosen, &columns[VALUE_VALID]);
    if (columns[HEADER_ENDS].data != NULL)
        answer |= write_headers(&chosen, columns);
    return answer;
}
