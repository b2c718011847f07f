/* Questions of a broker to the records of one batch: by time, and whether they may be stored. */
#include "record.h"

#define INDEXES_MAX 1000
#define NO_TIMESTAMP -1

enum question { FIRST_AT_OR_AFTER, LATEST, QUESTION_COUNT };

typedef struct {
    int64_t offset, timestamp;
    int is_found;
} Found;

/* The questions below read all records, whatever was found before: damage behind it counts. They
 * leave the position of the record that cannot be read in `cursor`. */
static int search(RecordCursor *cursor, enum question question, int64_t timestamp,
                  int64_t from_offset, Found *found)
{
    Row row;
    while (cursor->records_left) {
        if (next_record(cursor, &row) != OK)
            return ODD;
        if (row.offset < from_offset)
            continue;
        int is_it = question == LATEST ? !found->is_found || row.timestamp > found->timestamp
                                       : !found->is_found && row.timestamp >= timestamp;
        if (is_it)
            *found = (Found){row.offset, row.timestamp, 1};
    }
    return ends_well(cursor);
}

/* Numbers of the records that break one rule: how many, and the first of them. */
typedef struct {
    int64_t total, indexes[INDEXES_MAX];
} Faulty;

static inline void note_faulty(Faulty *faulty, int64_t limit, int64_t index)
{
    if (faulty->total < limit)
        faulty->indexes[faulty->total] = index;
    faulty->total++;
}

typedef struct {
    int needs_keys;
    int64_t timestamp_min, timestamp_max, limit;
} Rules;

/* Also leaves the largest timestamp. NO_TIMESTAMP is within every range. */
static int check_all(RecordCursor *cursor, const Rules *rules, int64_t *largest, Faulty *keyless,
                     Faulty *mistimed)
{
    Row row;
    int64_t highest = NO_TIMESTAMP;
    for (int64_t index = 0; cursor->records_left; index++) {
        if (next_record(cursor, &row) != OK)
            return ODD;
        if (rules->needs_keys && row.key_bytes == IS_NULL)
            note_faulty(keyless, rules->limit, index);
        if ((row.timestamp < rules->timestamp_min || row.timestamp > rules->timestamp_max) &&
            row.timestamp != NO_TIMESTAMP)
            note_faulty(mistimed, rules->limit, index);
        if (row.timestamp > highest)
            highest = row.timestamp;
    }
    *largest = highest;
    return ends_well(cursor);
}

/* A batch and its unpacked records, lent by Python while a question is answered. The batch's CRC is
 * not looked at, as in lookup.py. */
typedef struct {
    Py_buffer batch, payload;
    RecordCursor cursor;
} Asked;

static int begin_question(PyObject *batch, PyObject *payload, Asked *asked)
{
    BatchHeader header;
    if (borrow(batch, &asked->batch) < 0)
        return -1;
    if (borrow(payload, &asked->payload) < 0) {
        PyBuffer_Release(&asked->batch);
        return -1;
    }
    if (read_batch_header(asked->batch.buf, asked->batch.len, &header) != OK ||
        asked->payload.len > PAYLOAD_BYTES_MAX) {
        PyBuffer_Release(&asked->payload);
        PyBuffer_Release(&asked->batch);
        refuse_odd();
        return -1;
    }
    begin_records(&asked->cursor, &header, asked->payload.buf, asked->payload.len);
    return 0;
}

/* Raises ValueError(position of the record that cannot be read) unless `answer` is OK. */
static int end_question(Asked *asked, int answer)
{
    if (answer != OK) {
        PyObject *at = PyLong_FromSsize_t(asked->cursor.at - asked->cursor.payload);
        if (at != NULL) {
            PyErr_SetObject(PyExc_ValueError, at);
            Py_DECREF(at);
        }
    }
    PyBuffer_Release(&asked->payload);
    PyBuffer_Release(&asked->batch);
    return answer == OK ? 0 : -1;
}

/* look_up(batch, payload, question, timestamp, from offset) -> (is found, offset, timestamp) */
PyObject *py_look_up(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *batch, *payload;
    Asked asked;
    Found found = {0};
    int question, answer;
    long long timestamp, from_offset;
    if (!PyArg_ParseTuple(arguments, "OOiLL", &batch, &payload, &question, &timestamp,
                          &from_offset))
        return NULL;
    if (question < 0 || question >= QUESTION_COUNT)
        return refuse_odd();
    if (begin_question(batch, payload, &asked) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    answer = search(&asked.cursor, question, timestamp, from_offset, &found);
    Py_END_ALLOW_THREADS
    if (end_question(&asked, answer) < 0)
        return NULL;
    return Py_BuildValue("(NLL)", PyBool_FromLong(found.is_found), (long long)found.offset,
                         (long long)found.timestamp);
}

static PyObject *list_of(const Faulty *faulty, int64_t limit)
{
    Py_ssize_t kept = (Py_ssize_t)(faulty->total < limit ? faulty->total : limit);
    PyObject *list = PyList_New(kept);
    for (Py_ssize_t i = 0; list != NULL && i < kept; i++) {
        PyObject *number = PyLong_FromLongLong((long long)faulty->indexes[i]);
        if (number == NULL || PyList_SetItem(list, i, number) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* check_records(batch, payload, needs keys, smallest and largest timestamp allowed, limit)
 * -> (largest timestamp, without a key, numbers of the first `limit`, out of the range, the same)
 */
PyObject *py_check_records(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *batch, *payload;
    Asked asked;
    Faulty keyless, mistimed;
    Rules rules;
    int limit, answer;
    int64_t largest = NO_TIMESTAMP;
    long long timestamp_min, timestamp_max;
    if (!PyArg_ParseTuple(arguments, "OOpLLi", &batch, &payload, &rules.needs_keys,
                          &timestamp_min, &timestamp_max, &limit))
        return NULL;
    if (limit < 0 || limit > INDEXES_MAX)
        return refuse_odd();
    if (begin_question(batch, payload, &asked) < 0)
        return NULL;
    rules.timestamp_min = timestamp_min;
    rules.timestamp_max = timestamp_max;
    rules.limit = limit;
    keyless.total = mistimed.total = 0;
    if (asked.payload.len < GIL_BYTES_MIN)
        answer = check_all(&asked.cursor, &rules, &largest, &keyless, &mistimed);
    else {
        Py_BEGIN_ALLOW_THREADS
        answer = check_all(&asked.cursor, &rules, &largest, &keyless, &mistimed);
        Py_END_ALLOW_THREADS
    }
    if (end_question(&asked, answer) < 0)
        return NULL;
    PyObject *first = list_of(&keyless, limit);
    PyObject *second = first == NULL ? NULL : list_of(&mistimed, limit);
    if (second == NULL) {
        Py_XDECREF(first);
        return NULL;
    }
    return Py_BuildValue("(LLNLN)", (long long)largest, (long long)keyless.total, first,
                         (long long)mistimed.total, second);
}
