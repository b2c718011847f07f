/* Kafka's partition of every key of an Arrow column: toPositive(murmur2(key)) % partitions. */
#include "codec.h"

#define SEED 0x9747b28cu
#define FACTOR 0x5bd1e995u

static uint32_t murmur2(const uint8_t *key, uint32_t size)
{
    uint32_t state = SEED ^ size;
    for (; size >= 4; key += 4, size -= 4) {
        uint32_t word = (uint32_t)key[0] | (uint32_t)key[1] << 8 | (uint32_t)key[2] << 16 |
                        (uint32_t)key[3] << 24;
        word *= FACTOR;
        word = (word ^ word >> 24) * FACTOR;
        state = state * FACTOR ^ word;
    }
    if (size) {
        for (uint32_t i = 0; i < size; i++)
            state ^= (uint32_t)key[i] << 8 * i;
        state *= FACTOR;
    }
    state = (state ^ state >> 13) * FACTOR;
    return state ^ state >> 15;
}

/* A null gets 0; the caller knows which are null. */
static int choose(const Column *keys, int64_t count, uint32_t partitions, uint8_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        int32_t at, size, partition = 0;
        if (column_slice(keys, i, &at, &size) != OK)
            return ODD;
        if (size > 0 && (int64_t)at + size > keys->data.len)
            return ODD;
        if (size >= 0) {
            const uint8_t *data = keys->data.buf;
            uint32_t hash = murmur2(size ? data + at : NULL, (uint32_t)size);
            partition = (int32_t)((hash & 0x7fffffff) % partitions);
        }
        memcpy(out + 4 * i, &partition, 4);
    }
    return OK;
}

/* partitions_of(keys, count, partitions, out): a column, and a writable buffer of int32 */
PyObject *py_partitions_of(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *tuple, *lent;
    long long count;
    int partitions, answer = ODD;
    Column keys;
    Py_buffer out;
    if (!PyArg_ParseTuple(arguments, "OLiO", &tuple, &count, &partitions, &lent))
        return NULL;
    if (borrow_column(tuple, &keys) < 0)
        return NULL;
    if (PyObject_GetBuffer(lent, &out, PyBUF_WRITABLE) < 0) {
        return_column(&keys);
        return NULL;
    }
    if (partitions > 0 && column_spans(&keys, count) && out.len / 4 >= count) {
        Py_BEGIN_ALLOW_THREADS
        answer = choose(&keys, count, (uint32_t)partitions, out.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&out);
    return_column(&keys);
    if (answer != OK)
        return refuse_odd();
    Py_RETURN_NONE;
}
