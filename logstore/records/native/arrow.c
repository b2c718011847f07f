/* Columns of Arrow arrays as Python hands them over: (start, validity, ends, data).
 *
 * An array made by an honest library holds together. It is checked nevertheless: a slice that runs
 * out of its buffer would send memory of this process to a reader of the log.
 */
#include "codec.h"

static int borrow_optional(PyObject *object, Py_buffer *view)
{
    memset(view, 0, sizeof *view);
    return object == Py_None ? 0 : borrow(object, view);
}

int borrow_column(PyObject *tuple, Column *column)
{
    PyObject *valid, *ends, *data;
    long long start;
    memset(column, 0, sizeof *column);
    if (tuple == Py_None) {
        column->is_absent = 1;
        return 0;
    }
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a column is a tuple or None");
        return -1;
    }
    if (!PyArg_ParseTuple(tuple, "LOOO", &start, &valid, &ends, &data))
        return -1;
    if (start < 0 || start > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "column starts out of range");
        return -1;
    }
    column->start = start;
    if (borrow_optional(valid, &column->valid) < 0 || borrow_optional(ends, &column->ends) < 0 ||
        borrow_optional(data, &column->data) < 0) {
        return_column(column);
        return -1;
    }
    return 0;
}

/* Views that were never borrowed are all zero, and giving those back does nothing. */
void return_column(Column *column)
{
    PyBuffer_Release(&column->valid);
    PyBuffer_Release(&column->ends);
    PyBuffer_Release(&column->data);
}

/* Of a column with `ends`; `items` counts from its start. */
int column_spans(const Column *column, int64_t items)
{
    if (column->is_absent)
        return 1;
    int64_t last = column->start + items;
    if (items < 0 || items > INT32_MAX || column->ends.len / 4 < last + 1)
        return 0;
    return column->valid.buf == NULL || column->valid.len >= (last + 7) / 8;
}

static int write_each(const Column *keys, int32_t count, size_t width, PerKey write, uint8_t *out)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t at, size;
        const uint8_t *key = NULL;
        if (column_slice(keys, i, &at, &size) != OK)
            return ODD;
        if (size != IS_NULL) {
            if ((int64_t)at + size > keys->data.len)
                return ODD;
            key = (const uint8_t *)keys->data.buf + at;
        }
        if (write(key, size, out + width * (size_t)i) != OK)
            return ODD;
    }
    return OK;
}

PyObject *for_each_key(PyObject *arguments, size_t width, PerKey write)
{
    PyObject *tuple, *written = NULL;
    Column keys;
    int count, answer;
    if (!PyArg_ParseTuple(arguments, "iO", &count, &tuple))
        return NULL;
    if (borrow_column(tuple, &keys) < 0)
        return NULL;
    if (count < 0 || !column_spans(&keys, count)) {
        return_column(&keys);
        return refuse_odd();
    }
    written = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)width * count);
    if (written != NULL) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(written);
        Py_BEGIN_ALLOW_THREADS
        answer = write_each(&keys, count, width, write, out);
        Py_END_ALLOW_THREADS
        if (answer != OK) {
            Py_DECREF(written);
            written = refuse_odd();
        }
    }
    return_column(&keys);
    return written;
}
