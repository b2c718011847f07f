/* Decoder: whole batches in, the rows of their records out, into memory that Python lends.
 *
 *     add(batch)      checks a batch and keeps it; TAKEN, or why not
 *     take()          chooses the next rows that fit the limits; their sizes, or None
 *     fill(buffers)   writes these rows, each column into its own buffer
 *
 * What was added together is one group. A group has no more records than a result may have rows,
 * or it is a single batch: that one is read twice, first to see whether all of it is sound, so that
 * no row is given out of a batch that turns out not to be. What is kept of a row while its result
 * is made (Row) is bounded by the rows of one result, however many records a batch claims to have.
 */
#include "codec.h"
#include "decoder.h"

static void forget_batch(Batch *batch)
{
    PyBuffer_Release(&batch->stored);
    if (batch->is_packed)
        PyBuffer_Release(&batch->unpacked);
}

static void forget_group(Decoder *self)
{
    for (size_t i = 0; i < self->batch_count; i++)
        forget_batch(&self->batches[i]);
    self->batch_count = self->batch_next = 0;
    self->row_count = self->row_first = self->row_last = 0;
    self->waiting_rows = self->waiting_bytes = 0;
    self->is_reading = self->is_checked = 0;
    self->sizes = (Sizes){0};
}

static int enter(Decoder *self)
{
    if (self->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "a decoder is for one thread at a time");
        return -1;
    }
    return 0;
}

/* Decoder(start, end, rows_max, bytes_max, payload_bytes_max, row_bytes) */
static PyObject *decoder_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"start", "end", "rows_max", "bytes_max", "payload_bytes_max",
                            "row_bytes", NULL};
    long long start, end, rows_max, bytes_max, payload_bytes_max, row_bytes;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "LLLLLL", names, &start, &end, &rows_max,
                                     &bytes_max, &payload_bytes_max, &row_bytes))
        return NULL;
    if (rows_max < 1 || rows_max > INT32_MAX || bytes_max < 1 || bytes_max > PAYLOAD_BYTES_MAX ||
        payload_bytes_max > PAYLOAD_BYTES_MAX || row_bytes < 0 || row_bytes > 1024) {
        PyErr_SetString(PyExc_ValueError, "limits out of range");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Decoder *self = (Decoder *)allocate(type, 0); /* zeroed */
    if (self == NULL)
        return NULL;
    self->start = start;
    self->end = end;
    self->rows_max = rows_max;
    self->bytes_max = bytes_max;
    self->payload_bytes_max = payload_bytes_max;
    self->row_bytes = row_bytes;
    self->next_offset = INT64_MIN;
    return (PyObject *)self;
}

static void decoder_dealloc(PyObject *object)
{
    Decoder *self = (Decoder *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    forget_group(self);
    free(self->batches);
    free(self->rows);
    release(object);
    Py_DECREF(type);
}

static PyObject *decoder_clear(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    Decoder *self = (Decoder *)object;
    if (enter(self) < 0)
        return NULL;
    forget_group(self);
    self->next_offset = INT64_MIN;
    Py_RETURN_NONE;
}

/* add */

static int crc_is_right(Decoder *self, const Batch *batch)
{
    int is_right;
    if (batch->header.size_bytes < GIL_BYTES_MIN)
        return has_right_crc(batch->stored.buf, &batch->header);
    self->is_busy = 1;
    Py_BEGIN_ALLOW_THREADS
    is_right = has_right_crc(batch->stored.buf, &batch->header);
    Py_END_ALLOW_THREADS
    self->is_busy = 0;
    return is_right;
}

static int room_for_batch(Decoder *self)
{
    if (self->batch_count < self->batch_capacity)
        return 0;
    size_t capacity = self->batch_capacity ? 2 * self->batch_capacity : 16;
    Batch *grown = realloc(self->batches, capacity * sizeof *grown);
    if (grown == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->batches = grown;
    self->batch_capacity = capacity;
    return 0;
}

/* Fills in all of `batch` but its views. */
static enum verdict judge(Decoder *self, Batch *batch)
{
    BatchHeader *header = &batch->header;
    const uint8_t *data = batch->stored.buf;
    if (read_batch_header(data, batch->stored.len, header) != OK)
        return REFUSED;
    /* The sum in brackets first: a batch without records has the delta -1, and a base may be the
     * least of all numbers. */
    int64_t next_offset = header->base_offset + ((int64_t)header->last_offset_delta + 1);
    int64_t low = header->base_offset > self->start ? header->base_offset : self->start;
    int64_t high = next_offset < self->end ? next_offset : self->end;
    if (header->attributes & CONTROL_BIT || low >= high)
        return SKIPPED;
    if (header->base_offset < self->next_offset)
        return OUT_OF_ORDER;
    if (header->attributes & CODEC_BITS && !batch->is_packed)
        return crc_is_right(self, batch) ? PACKED : REFUSED;
    if (batch->is_packed) {
        batch->payload = batch->unpacked.buf;
        batch->payload_bytes = batch->unpacked.len;
    } else {
        batch->payload = data + BATCH_HEADER_BYTES;
        batch->payload_bytes = header->size_bytes - BATCH_HEADER_BYTES;
    }
    if (batch->payload_bytes > self->payload_bytes_max ||
        (int64_t)header->record_count * RECORD_BYTES_MIN > batch->payload_bytes)
        return REFUSED;
    int64_t rows = self->waiting_rows + header->record_count;
    int64_t bytes = self->waiting_bytes + batch->payload_bytes +
                    self->row_bytes * header->record_count;
    int is_too_much = rows > self->rows_max || bytes + RESULT_BYTES > self->bytes_max;
    if (self->batch_count && is_too_much)
        return FULL;
    if (!batch->is_packed && !crc_is_right(self, batch))
        return REFUSED;
    self->waiting_rows = rows;
    self->waiting_bytes = bytes;
    self->next_offset = next_offset;
    return TAKEN;
}

/* add(batch, payload=None): with its payload decompressed, where that was PACKED before */
static PyObject *decoder_add(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    Decoder *self = (Decoder *)object;
    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "add takes a batch and its payload");
        return NULL;
    }
    if (enter(self) < 0 || room_for_batch(self) < 0)
        return NULL;
    if (self->is_reading) {
        PyErr_SetString(PyExc_RuntimeError, "take all rows before more batches are added");
        return NULL;
    }
    Batch batch = {0};
    if (borrow(arguments[0], &batch.stored) < 0)
        return NULL;
    if (count == 2) {
        if (borrow(arguments[1], &batch.unpacked) < 0) {
            PyBuffer_Release(&batch.stored);
            return NULL;
        }
        batch.is_packed = 1;
    }
    enum verdict verdict = judge(self, &batch);
    if (verdict == TAKEN)
        self->batches[self->batch_count++] = batch;
    else
        forget_batch(&batch);
    return PyLong_FromLong(verdict);
}

/* take */

static int check_whole(const Batch *batch)
{
    RecordCursor cursor;
    Row row;
    begin_records(&cursor, &batch->header, batch->payload, batch->payload_bytes);
    while (cursor.records_left)
        if (next_record(&cursor, &row) != OK)
            return ODD;
    return ends_well(&cursor);
}

static inline void count_row(Sizes *sizes, const Row *row, int64_t row_bytes)
{
    int64_t key_bytes = row->key_bytes > 0 ? row->key_bytes : 0;
    int64_t value_bytes = row->value_bytes > 0 ? row->value_bytes : 0;
    sizes->bytes += key_bytes + value_bytes + row_bytes;
    sizes->key_bytes += key_bytes;
    sizes->key_nulls += row->key_bytes == IS_NULL;
    sizes->value_bytes += value_bytes;
    sizes->value_nulls += row->value_bytes == IS_NULL;
    if (row->header_count) {
        sizes->bytes += (int64_t)row->header_name_bytes + row->header_value_bytes +
                        (int64_t)row->header_count * HEADER_ROW_BYTES;
        sizes->headers += row->header_count;
        sizes->name_bytes += row->header_name_bytes;
        sizes->header_value_bytes += row->header_value_bytes;
        sizes->header_nulls += row->header_null_values;
    }
}

/* Reads the rows of the cursor's batch until it ends or no more may be kept. */
static int read_batch_rows(Decoder *self, Sizes *sizes)
{
    RecordCursor cursor = self->cursor; /* a copy, which the compiler may keep in registers */
    size_t count = self->row_count;
    int answer = OK;
    while (cursor.records_left && count < self->row_capacity) {
        Row *row = &self->rows[count];
        if ((answer = next_record(&cursor, row)) != OK)
            break;
        if (row->offset < self->start || row->offset >= self->end)
            continue;
        row->batch = (uint32_t)self->batch_next;
        count_row(sizes, row, self->row_bytes);
        count++;
    }
    self->cursor = cursor;
    self->row_count = count;
    return answer;
}

/* Reads on until the group ends or no more rows may be kept. */
static int read_rows(Decoder *self)
{
    Sizes sizes = {.bytes = RESULT_BYTES};
    self->row_count = self->row_first = self->row_last = 0;
    if (self->waiting_rows > self->rows_max && !self->is_checked) {
        if (check_whole(&self->batches[0]) != OK)
            return ODD;
        self->is_checked = 1;
    }
    for (; self->batch_next < self->batch_count; self->batch_next++) {
        const Batch *batch = &self->batches[self->batch_next];
        if (!self->is_reading)
            begin_records(&self->cursor, &batch->header, batch->payload, batch->payload_bytes);
        self->is_reading = 1;
        if (read_batch_rows(self, &sizes) != OK)
            return ODD;
        if (self->cursor.records_left)
            break;
        if (ends_well(&self->cursor) != OK)
            return ODD;
        self->is_reading = 0;
    }
    self->is_reading = 1; /* until all rows are taken */
    self->read = sizes;
    return OK;
}

static int room_for_rows(Decoder *self)
{
    int64_t need = self->waiting_rows < self->rows_max ? self->waiting_rows : self->rows_max;
    if (self->row_capacity >= (size_t)need)
        return 0;
    Row *grown = realloc(self->rows, (size_t)need * sizeof *grown);
    if (grown == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->rows = grown;
    self->row_capacity = (size_t)need;
    return 0;
}

/* As many of the rows that were read as fit; at least one. */
static void choose_rows(Decoder *self)
{
    size_t i = self->row_first = self->row_last;
    if (i == 0 && self->read.bytes <= self->bytes_max) {
        self->row_last = self->row_count;
        self->sizes = self->read;
        return;
    }
    Sizes sizes = {.bytes = RESULT_BYTES};
    for (; i < self->row_count; i++) {
        Sizes with = sizes;
        count_row(&with, &self->rows[i], self->row_bytes);
        if (i > self->row_first && with.bytes > self->bytes_max)
            break;
        sizes = with;
    }
    self->row_last = i;
    self->sizes = sizes;
}

static int next_rows(Decoder *self)
{
    if (self->row_last == self->row_count) {
        if (read_rows(self) != OK)
            return ODD;
    }
    choose_rows(self);
    return OK;
}

/* Nine sizes of the next rows, in the order of the stub file; None when there are no more. */
static PyObject *decoder_take(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    Decoder *self = (Decoder *)object;
    if (enter(self) < 0)
        return NULL;
    int answer = OK;
    if (self->batch_next < self->batch_count || self->row_last < self->row_count) {
        if (room_for_rows(self) < 0)
            return NULL;
        self->is_busy = 1;
        if (self->waiting_bytes < GIL_BYTES_MIN)
            answer = next_rows(self);
        else {
            Py_BEGIN_ALLOW_THREADS
            answer = next_rows(self);
            Py_END_ALLOW_THREADS
        }
        self->is_busy = 0;
    } else
        self->row_first = self->row_last;
    if (answer != OK) {
        forget_group(self);
        return refuse_odd();
    }
    if (self->row_first == self->row_last) {
        forget_group(self);
        Py_RETURN_NONE;
    }
    const Sizes *sizes = &self->sizes;
    return Py_BuildValue("nLLLLLLLL", (Py_ssize_t)(self->row_last - self->row_first),
                         (long long)sizes->key_nulls, (long long)sizes->key_bytes,
                         (long long)sizes->value_nulls, (long long)sizes->value_bytes,
                         (long long)sizes->headers, (long long)sizes->name_bytes,
                         (long long)sizes->header_nulls, (long long)sizes->header_value_bytes);
}

/* fill(buffers): one writable buffer, or None, for each of `enum column` */
static PyObject *decoder_fill(PyObject *object, PyObject *arguments)
{
    Decoder *self = (Decoder *)object;
    PyObject *lent[COLUMN_COUNT];
    Py_buffer views[COLUMN_COUNT];
    Lent columns[COLUMN_COUNT];
    Py_ssize_t held = 0;
    int answer = ODD;
    if (enter(self) < 0)
        return NULL;
    if (PyTuple_Size(arguments) != COLUMN_COUNT) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "fill takes a buffer for every column, or None");
        return NULL;
    }
    for (; held < COLUMN_COUNT; held++) {
        lent[held] = PyTuple_GetItem(arguments, held);
        columns[held].data = columns[held].end = NULL;
        if (lent[held] == Py_None)
            continue;
        if (PyObject_GetBuffer(lent[held], &views[held], PyBUF_WRITABLE) < 0)
            break;
        columns[held].data = views[held].buf;
        columns[held].end = columns[held].data + views[held].len;
    }
    if (held == COLUMN_COUNT) {
        self->is_busy = 1;
        if (self->sizes.bytes < GIL_BYTES_MIN)
            answer = write_columns(self, columns);
        else {
            Py_BEGIN_ALLOW_THREADS
            answer = write_columns(self, columns);
            Py_END_ALLOW_THREADS
        }
        self->is_busy = 0;
    }
    while (held-- > 0)
        if (lent[held] != Py_None)
            PyBuffer_Release(&views[held]);
    if (PyErr_Occurred())
        return NULL;
    if (answer != OK) {
        forget_group(self);
        return refuse_odd();
    }
    Py_RETURN_NONE;
}

static PyMethodDef decoder_methods[] = {
    {"add", (PyCFunction)(void (*)(void))decoder_add, METH_FASTCALL, NULL},
    {"take", decoder_take, METH_NOARGS, NULL},
    {"fill", decoder_fill, METH_VARARGS, NULL},
    {"clear", decoder_clear, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot decoder_slots[] = {
    {Py_tp_new, decoder_new},
    {Py_tp_dealloc, decoder_dealloc},
    {Py_tp_methods, decoder_methods},
    {0, NULL},
};

PyType_Spec decoder_spec = {
    .name = "logstore.records.native._codec.Decoder",
    .basicsize = sizeof(Decoder),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = decoder_slots,
};
