/* Rows of Arrow arrays as one record batch: what `encode_batch` in encode.py makes of them.
 *
 * First the rows are measured until no more fit, then they are written into memory of just that
 * size. What the first pass found is kept, so that the second writes no more than was measured.
 */
#include "codec.h"

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

typedef struct {
    int64_t first, end; /* rows to encode: as many of them as fit */
    int64_t bytes_max;
    int64_t base_offset; /* of the first row; with a column of offsets, none is below it */
    int has_append_time; /* all records of a batch have one timestamp */
    Column offsets, timestamps, keys, values, lists, names, header_values;
} Source;

typedef struct {
    int64_t offset_delta, time_delta;
    int64_t body_bytes;
    int32_t key_at, key_bytes;
    int32_t value_at, value_bytes;
    int32_t header_at, header_count;
} Measured;

typedef struct {
    Measured *rows;
    int64_t count, capacity;
    int64_t payload_bytes;
    int64_t base_offset, base_timestamp, max_timestamp;
} Plan;

enum fit { FITS, NO_MORE, WRONG, NO_MEMORY };

static int64_t bytes_with_length(int32_t size)
{
    return varint_bytes(size) + (size > 0 ? size : 0);
}

static int within(const Column *column, int32_t at, int32_t size)
{
    return size <= 0 || (int64_t)at + size <= column->data.len;
}

static int measure_headers(const Source *source, int64_t row, Measured *measured)
{
    int32_t at, count;
    if (column_slice(&source->lists, row, &at, &count) != OK)
        return ODD;
    measured->header_at = at;
    measured->header_count = count = count > 0 ? count : 0;
    measured->body_bytes += varint_bytes(count);
    if (!count)
        return OK;
    if (!column_spans(&source->names, (int64_t)at + count) ||
        !column_spans(&source->header_values, (int64_t)at + count))
        return ODD;
    for (int64_t i = at; i < (int64_t)at + count; i++) {
        int32_t start, size;
        if (column_slice(&source->names, i, &start, &size) != OK || size < 0 ||
            !within(&source->names, start, size))
            return ODD;
        const uint8_t *name = (const uint8_t *)source->names.data.buf + start;
        if (size > 0 && !is_utf8(name, name + size))
            return ODD;
        measured->body_bytes += bytes_with_length(size);
        if (column_slice(&source->header_values, i, &start, &size) != OK ||
            !within(&source->header_values, start, size))
            return ODD;
        measured->body_bytes += bytes_with_length(size);
    }
    return OK;
}

static int64_t item_i64(const Column *column, int64_t row)
{
    return load_i64((const uint8_t *)column->data.buf + 8 * (column->start + row));
}

/* Both deltas of a row, and whether it may be in the batch. */
static enum fit place(const Source *source, Plan *plan, int64_t row, Measured *measured)
{
    int64_t timestamp = item_i64(&source->timestamps, row);
    int64_t offset = source->offsets.is_absent ? plan->base_offset + (row - source->first)
                                               : item_i64(&source->offsets, row);
    if (timestamp < -1 || offset < source->base_offset || offset == INT64_MAX)
        return WRONG;
    if (!plan->count) {
        plan->base_offset = offset;
        plan->base_timestamp = plan->max_timestamp = timestamp;
    }
    /* Both are -1 at least, so only these two differences leave 63 bits. */
    if ((timestamp == INT64_MAX && plan->base_timestamp == -1) ||
        (timestamp == -1 && plan->base_timestamp == INT64_MAX))
        return WRONG;
    if (source->has_append_time && timestamp != plan->base_timestamp)
        return NO_MORE;
    measured->time_delta = timestamp - plan->base_timestamp;
    measured->offset_delta = offset - plan->base_offset;
    if (plan->count && measured->offset_delta <= plan->rows[plan->count - 1].offset_delta)
        return WRONG;
    return measured->offset_delta > INT32_MAX ? NO_MORE : FITS;
}

static enum fit measure_row(const Source *source, Plan *plan, int64_t row, Measured *measured)
{
    enum fit fit = place(source, plan, row, measured);
    if (fit != FITS)
        return fit;
    if (column_slice(&source->keys, row, &measured->key_at, &measured->key_bytes) != OK ||
        column_slice(&source->values, row, &measured->value_at, &measured->value_bytes) != OK ||
        !within(&source->keys, measured->key_at, measured->key_bytes) ||
        !within(&source->values, measured->value_at, measured->value_bytes))
        return WRONG;
    measured->body_bytes = 1 + varint_bytes(measured->time_delta) +
                           varint_bytes(measured->offset_delta) +
                           bytes_with_length(measured->key_bytes) +
                           bytes_with_length(measured->value_bytes);
    if (measure_headers(source, row, measured) != OK)
        return WRONG;
    int64_t payload_bytes =
        plan->payload_bytes + varint_bytes(measured->body_bytes) + measured->body_bytes;
    if (plan->count && payload_bytes + BATCH_HEADER_BYTES > source->bytes_max)
        return NO_MORE;
    if (payload_bytes > PAYLOAD_BYTES_MAX)
        return WRONG;
    plan->payload_bytes = payload_bytes;
    return FITS;
}

static enum fit measure(const Source *source, Plan *plan)
{
    for (int64_t row = source->first; row < source->end; row++) {
        if (plan->count == plan->capacity) {
            int64_t capacity = plan->capacity ? 2 * plan->capacity : 1024;
            Measured *grown = realloc(plan->rows, (size_t)capacity * sizeof *grown);
            if (grown == NULL)
                return NO_MEMORY;
            plan->rows = grown;
            plan->capacity = capacity;
        }
        enum fit fit = measure_row(source, plan, row, &plan->rows[plan->count]);
        if (fit == NO_MORE)
            break;
        if (fit != FITS)
            return fit;
        int64_t timestamp = plan->base_timestamp + plan->rows[plan->count].time_delta;
        if (timestamp > plan->max_timestamp)
            plan->max_timestamp = timestamp;
        plan->count++;
    }
    return FITS;
}

static uint8_t *write_bytes(uint8_t *out, const uint8_t *out_end, const Column *column, int32_t at,
                            int32_t size)
{
    out = write_varint(out, size);
    if (size > 0) {
        const uint8_t *data = column->data.buf;
        copy_bytes(out, out_end, data + at, data + column->data.len, (size_t)size);
        out += size;
    }
    return out;
}

/* Lengths are read again here, so it is seen to that they are still those that were measured. */
static uint8_t *write_headers(const Source *source, const Measured *measured, uint8_t *out,
                              const uint8_t *body_end)
{
    out = write_varint(out, measured->header_count);
    for (int64_t i = measured->header_at, left = measured->header_count; left; i++, left--) {
        const Column *parts[2] = {&source->names, &source->header_values};
        for (int part = 0; part < 2; part++) {
            int32_t at, size;
            if (column_slice(parts[part], i, &at, &size) != OK || !within(parts[part], at, size) ||
                bytes_with_length(size) > body_end - out)
                return NULL;
            out = write_bytes(out, body_end, parts[part], at, size);
        }
    }
    return out;
}

static int write_records(const Source *source, const Plan *plan, uint8_t *out)
{
    const uint8_t *end = out + plan->payload_bytes;
    for (int64_t i = 0; i < plan->count; i++) {
        const Measured *row = &plan->rows[i];
        out = write_varint(out, row->body_bytes);
        const uint8_t *body_end = out + row->body_bytes;
        *out++ = 0; /* attributes */
        out = write_varint(out, row->time_delta);
        out = write_varint(out, row->offset_delta);
        out = write_bytes(out, end, &source->keys, row->key_at, row->key_bytes);
        out = write_bytes(out, end, &source->values, row->value_at, row->value_bytes);
        if (row->header_count)
            out = write_headers(source, row, out, body_end);
        else
            *out++ = 0;
        if (out != body_end)
            return ODD;
    }
    return OK;
}

static int write_batch(const Source *source, const Plan *plan, int32_t leader_epoch, uint8_t *out)
{
    if (write_records(source, plan, out + BATCH_HEADER_BYTES) != OK)
        return ODD;
    BatchHeader header = {
        .base_offset = plan->base_offset,
        .base_timestamp = plan->base_timestamp,
        .max_timestamp = plan->max_timestamp,
        .size_bytes = BATCH_HEADER_BYTES + plan->payload_bytes,
        .leader_epoch = leader_epoch,
        .last_offset_delta = (int32_t)plan->rows[plan->count - 1].offset_delta,
        .record_count = (int32_t)plan->count,
        .attributes = source->has_append_time ? LOG_APPEND_TIME_BIT : 0,
    };
    write_batch_header(out, &header);
    return OK;
}

static int source_holds_together(const Source *source)
{
    int64_t end = source->end;
    if (source->first < 0 || source->first >= end || end > INT32_MAX || source->base_offset < 0 ||
        source->base_offset > INT64_MAX - end)
        return 0;
    if (source->timestamps.data.len / 8 < source->timestamps.start + end)
        return 0;
    if (!source->offsets.is_absent && source->offsets.data.len / 8 < source->offsets.start + end)
        return 0;
    return column_spans(&source->keys, end) && column_spans(&source->values, end) &&
           column_spans(&source->lists, end);
}

static PyObject *encode(const Source *source, Plan *plan, int32_t leader_epoch)
{
    enum fit fit;
    int answer;
    if (!source_holds_together(source))
        return refuse_odd();
    Py_BEGIN_ALLOW_THREADS
    fit = measure(source, plan);
    Py_END_ALLOW_THREADS
    if (fit == NO_MEMORY)
        return PyErr_NoMemory();
    if (fit != FITS)
        return refuse_odd();
    PyObject *batch =
        PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(BATCH_HEADER_BYTES + plan->payload_bytes));
    if (batch == NULL)
        return NULL;
    uint8_t *out = (uint8_t *)PyBytes_AsString(batch);
    Py_BEGIN_ALLOW_THREADS
    answer = write_batch(source, plan, leader_epoch, out);
    Py_END_ALLOW_THREADS
    if (answer != OK) {
        Py_DECREF(batch);
        return refuse_odd();
    }
    long long next_offset = plan->base_offset + plan->rows[plan->count - 1].offset_delta + 1;
    return Py_BuildValue("(NLL)", batch, (long long)(source->first + plan->count), next_offset);
}

/* encode_rows(first, end, bytes_max, base_offset, leader_epoch, has_append_time, columns) */
PyObject *py_encode_rows(PyObject *module, PyObject *arguments)
{
    (void)module;
    Source source;
    Plan plan = {0};
    PyObject *tuples[7], *answer = NULL;
    long long first, end, bytes_max, base_offset;
    int leader_epoch;
    memset(&source, 0, sizeof source);
    if (!PyArg_ParseTuple(arguments, "LLLLip(OOOOOOO)", &first, &end, &bytes_max, &base_offset,
                          &leader_epoch, &source.has_append_time, &tuples[0], &tuples[1],
                          &tuples[2], &tuples[3], &tuples[4], &tuples[5], &tuples[6]))
        return NULL;
    source.first = first;
    source.end = end;
    source.bytes_max = bytes_max;
    source.base_offset = plan.base_offset = base_offset;
    Column *columns[7] = {&source.offsets, &source.timestamps, &source.keys,
                          &source.values,  &source.lists,      &source.names,
                          &source.header_values};
    int held = 0;
    while (held < 7 && borrow_column(tuples[held], columns[held]) == 0)
        held++;
    if (held == 7)
        answer = encode(&source, &plan, leader_epoch);
    while (held-- > 0)
        return_column(columns[held]);
    free(plan.rows);
    return answer;
}
