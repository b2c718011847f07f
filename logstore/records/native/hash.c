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

static int write_hash(const uint8_t *key, int32_t size, uint8_t *out)
{
    int32_t hash = key == NULL ? NO_KEY : (int32_t)(murmur2(key, size) & 0x7fffffffu);
    memcpy(out, &hash, sizeof hash);
    return OK;
}

/* hash_keys(count, keys): an int32 per key, of the machine's byte order */
PyObject *py_hash_keys(PyObject *module, PyObject *arguments)
{
    (void)module;
    return for_each_key(arguments, sizeof(int32_t), write_hash);
}
