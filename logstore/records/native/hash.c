/* Hashes of keys, by which Kafka's partitioner chooses: `murmur2.py` is the same in Python. */
#include "codec.h"

#define SEED 0x9747b28cu
#define FACTOR 0x5bd1e995u
#define NO_KEY (-1)

static uint32_t murmur2(const uint8_t *key, int32_t size)
{
    uint32_t state = SEED ^ (uint32_t)size, word;
    int32_t at = 0;
    for (; at + 4 <= size; at += 4) {
        word = (uint32_t)key[at] | (uint32_t)key[at + 1] << 8 | (uint32_t)key[at + 2] << 16 |
               (uint32_t)key[at + 3] << 24;
        word *= FACTOR;
        word ^= word >> 24;
        word *= FACTOR;
        state = state * FACTOR ^ word;
    }
    if (at < size) {
        for (int32_t left = size - at; left > 0; left--)
            state ^= (uint32_t)key[at + left - 1] << 8 * (left - 1);
        state *= FACTOR;
    }
    state ^= state >> 13;
    state *= FACTOR;
    return state ^ state >> 15;
}

static int hash_all(const Column *keys, int32_t count, uint8_t *out)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t at, size, hash = NO_KEY;
        if (column_slice(keys, i, &at, &size) != OK)
            return ODD;
        if (size != IS_NULL) {
            if ((int64_t)at + size > keys->data.len)
                return ODD;
            hash = (int32_t)(murmur2((const uint8_t *)keys->data.buf + at, size) & 0x7fffffffu);
        }
        memcpy(out + 4 * (size_t)i, &hash, sizeof hash);
    }
    return OK;
}

/* hash_keys(count, keys): an int32 per key, of the machine's byte order */
PyObject *py_hash_keys(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *tuple, *hashes = NULL;
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
    hashes = PyBytes_FromStringAndSize(NULL, 4 * (Py_ssize_t)count);
    if (hashes != NULL) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(hashes);
        Py_BEGIN_ALLOW_THREADS
        answer = hash_all(&keys, count, out);
        Py_END_ALLOW_THREADS
        if (answer != OK) {
            Py_DECREF(hashes);
            hashes = refuse_odd();
        }
    }
    return_column(&keys);
    return hashes;
}
