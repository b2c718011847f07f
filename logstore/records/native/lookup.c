/* One question to the records of one batch, as a broker asks it: by time. */
#include "record.h"

enum question { FIRST_AT_OR_AFTER, LATEST, QUESTION_COUNT };

typedef struct {
    int64_t offset, timestamp;
    int is_found;
} Found;

/* Reads all records, whatever was found before: damage behind it counts. */
static int search(const BatchHeader *header, const Py_buffer *payload, enum question question,
                  int64_t timestamp, Found *found)
{
    RecordCursor cursor;
    Row row;
    begin_records(&cursor, header, payload->buf, payload->len);
    while (cursor.records_left) {
        if (next_record(&cursor, &row) != OK)
            return ODD;
        int is_it = question == LATEST ? !found->is_found || row.timestamp > found->timestamp
                                       : !found->is_found && row.timestamp >= timestamp;
        if (is_it)
            *found = (Found){row.offset, row.timestamp, 1};
    }
    return ends_well(&cursor);
}

/* look_up(batch, payload, question, timestamp) -> (is found, offset, timestamp); the batch's CRC is
 * not looked at, as in lookup.py */
PyObject *py_look_up(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *objects[2];
    Py_buffer batch, payload;
    BatchHeader header;
    Found found = {0};
    int question, answer;
    long long timestamp;
    if (!PyArg_ParseTuple(arguments, "OOiL", &objects[0], &objects[1], &question, &timestamp))
        return NULL;
    if (borrow(objects[0], &batch) < 0)
        return NULL;
    if (borrow(objects[1], &payload) < 0) {
        PyBuffer_Release(&batch);
        return NULL;
    }
    answer = read_batch_header(batch.buf, batch.len, &header);
    if (question < 0 || question >= QUESTION_COUNT || payload.len > PAYLOAD_BYTES_MAX)
        answer = ODD;
    if (answer == OK) {
        Py_BEGIN_ALLOW_THREADS
        answer = search(&header, &payload, question, timestamp, &found);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&payload);
    PyBuffer_Release(&batch);
    if (answer != OK)
        return refuse_odd();
    return Py_BuildValue("(NLL)", PyBool_FromLong(found.is_found), (long long)found.offset,
                         (long long)found.timestamp);
}
