/* BLAKE2s digests of 128 bits without a key (RFC 7693): `digests.py` is the same in Python.
 *
 * Clients choose keys, and two keys with one digest lose a record: so a hash that resists those who
 * look for such keys, not only chance. */
#include "codec.h"

#define DIGEST_BYTES 16
#define BLOCK_BYTES 64
#define ROUNDS 10
#define PARAMETERS (0x01010000u ^ DIGEST_BYTES) /* fanout 1, depth 1, no key */

static const uint32_t beginning[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                      0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};

static const uint8_t order[ROUNDS][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static inline uint32_t turned(uint32_t word, int bits) /* to the right */
{
    return word >> bits | word << (32 - bits);
}

static inline void mix(uint32_t *v, int a, int b, int c, int d, uint32_t x, uint32_t y)
{
    v[a] += v[b] + x;
    v[d] = turned(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = turned(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = turned(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = turned(v[b] ^ v[c], 7);
}

static void compress(uint32_t state[8], const uint8_t *block, uint64_t bytes_so_far, int is_last)
{
    uint32_t v[16], words[16];
    for (int i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] | (uint32_t)block[4 * i + 1] << 8 |
                   (uint32_t)block[4 * i + 2] << 16 | (uint32_t)block[4 * i + 3] << 24;
    memcpy(v, state, 8 * sizeof *v);
    memcpy(v + 8, beginning, 8 * sizeof *v);
    v[12] ^= (uint32_t)bytes_so_far;
    v[13] ^= (uint32_t)(bytes_so_far >> 32);
    if (is_last)
        v[14] = ~v[14];
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *s = order[round];
        mix(v, 0, 4, 8, 12, words[s[0]], words[s[1]]);
        mix(v, 1, 5, 9, 13, words[s[2]], words[s[3]]);
        mix(v, 2, 6, 10, 14, words[s[4]], words[s[5]]);
        mix(v, 3, 7, 11, 15, words[s[6]], words[s[7]]);
        mix(v, 0, 5, 10, 15, words[s[8]], words[s[9]]);
        mix(v, 1, 6, 11, 12, words[s[10]], words[s[11]]);
        mix(v, 2, 7, 8, 13, words[s[12]], words[s[13]]);
        mix(v, 3, 4, 9, 14, words[s[14]], words[s[15]]);
    }
    for (int i = 0; i < 8; i++)
        state[i] ^= v[i] ^ v[i + 8];
}

static int write_digest(const uint8_t *key, int32_t size, uint8_t *out)
{
    if (key == NULL)
        return ODD;
    uint32_t state[8];
    uint8_t last[BLOCK_BYTES] = {0};
    int32_t at = 0;
    memcpy(state, beginning, sizeof state);
    state[0] ^= PARAMETERS;
    for (; size - at > BLOCK_BYTES; at += BLOCK_BYTES)
        compress(state, key + at, (uint64_t)at + BLOCK_BYTES, 0);
    if (size > at)
        memcpy(last, key + at, (size_t)(size - at));
    compress(state, last, (uint64_t)size, 1);
    for (int i = 0; i < DIGEST_BYTES; i++)
        out[i] = (uint8_t)(state[i / 4] >> 8 * (i % 4));
    return OK;
}

/* digest_keys(count, keys): 16 bytes per key, none of which is null */
PyObject *py_digest_keys(PyObject *module, PyObject *arguments)
{
    (void)module;
    return for_each_key(arguments, DIGEST_BYTES, write_digest);
}
