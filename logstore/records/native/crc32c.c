/* CRC-32C: by the best of three ways that the processor has.
 *
 *     folding       AVX-512: 256 bytes are carried forward by multiplying them, without carries, by
 *                   x**2048 modulo the polynomial, and adding the next 256. What is left at the end
 *                   has the same remainder as all of the data.
 *     instruction   It takes three cycles and one can start every cycle, so three stretches of the
 *                   data are summed at once. Sums are joined by advancing one over the length of
 *                   the next, a multiplication by x**(8 * length): four look-ups in a table.
 *     tables        Eight bytes a step, on any processor.
 *
 * Sums and constants are reflected, as the checksum is: the highest bit is the power 0 of x.
 */
#include "codec.h"

#define POLYNOMIAL 0x82f63b78u /* Castagnoli's, its lowest power in the highest bit */
#define LONG_BYTES_LOG2 12
#define SHORT_BYTES_LOG2 8
#define LONG_BYTES ((size_t)1 << LONG_BYTES_LOG2)
#define SHORT_BYTES ((size_t)1 << SHORT_BYTES_LOG2)

typedef uint32_t Table[256];
typedef uint32_t (*Way)(uint32_t sum, const uint8_t *data, size_t size);

static Table by_byte[8];
static Table over_long[4];
static Table over_short[4];

static uint64_t load_u64(const uint8_t *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

static uint32_t times_x(uint32_t a)
{
    return a >> 1 ^ (a & 1 ? POLYNOMIAL : 0);
}

static uint32_t product(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (uint32_t power = 0x80000000u; power; power >>= 1) {
        if (a & power)
            sum ^= b;
        b = times_x(b);
    }
    return sum;
}

static uint32_t power_of_x(uint32_t exponent)
{
    uint32_t power = 0x80000000u, square = 0x40000000u; /* 1 and x */
    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            power = product(power, square);
        square = product(square, square);
    }
    return power;
}

static void make_advance(Table table[4], int bytes_log2)
{
    uint32_t factor = power_of_x(8u << bytes_log2);
    for (int place = 0; place < 4; place++)
        for (uint32_t byte = 0; byte < 256; byte++)
            table[place][byte] = product(factor, byte << 8 * place);
}

static void make_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int i = 0; i < 8; i++)
            sum = times_x(sum);
        by_byte[0][byte] = sum;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = by_byte[k - 1][byte];
            by_byte[k][byte] = before >> 8 ^ by_byte[0][before & 255];
        }
    make_advance(over_long, LONG_BYTES_LOG2);
    make_advance(over_short, SHORT_BYTES_LOG2);
}

static uint32_t by_tables(uint32_t sum, const uint8_t *data, size_t size)
{
    for (; size >= 8; data += 8, size -= 8) {
        uint32_t low = sum ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 |
                              (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        sum = by_byte[7][low & 255] ^ by_byte[6][low >> 8 & 255] ^ by_byte[5][low >> 16 & 255] ^
              by_byte[4][low >> 24] ^ by_byte[3][data[4]] ^ by_byte[2][data[5]] ^
              by_byte[1][data[6]] ^ by_byte[0][data[7]];
    }
    for (; size; size--)
        sum = sum >> 8 ^ by_byte[0][(sum ^ *data++) & 255];
    return sum;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define HAS_INSTRUCTION
#define WITH_INSTRUCTION __attribute__((target("sse4.2")))
#define STEP_8(sum, word) ((uint32_t)_mm_crc32_u64(sum, word))
#define STEP_1(sum, byte) _mm_crc32_u8(sum, byte)

static int processor_has_it(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__) && !defined(__AARCH64EB__) && defined(__GNUC__) && \
    (defined(__linux__) || defined(__APPLE__))
#if defined(__clang__)
#define WITH_INSTRUCTION __attribute__((target("crc")))
#else
#define WITH_INSTRUCTION __attribute__((target("+crc")))
#endif
#include <arm_acle.h>
#define HAS_INSTRUCTION
#define STEP_8(sum, word) __crc32cd(sum, word)
#define STEP_1(sum, byte) __crc32cb(sum, byte)
#if defined(__linux__)
#include <sys/auxv.h>

static int processor_has_it(void)
{
    return (getauxval(AT_HWCAP) & 1 << 7) != 0; /* HWCAP_CRC32 */
}
#else
static int processor_has_it(void)
{
    return 1; /* every Mac of this kind */
}
#endif
#endif

#ifdef HAS_INSTRUCTION
static inline uint32_t advanced(const Table table[4], uint32_t sum)
{
    return table[0][sum & 255] ^ table[1][sum >> 8 & 255] ^ table[2][sum >> 16 & 255] ^
           table[3][sum >> 24];
}

WITH_INSTRUCTION
static inline uint32_t three_stretches(uint32_t sum, const uint8_t *data, size_t stretch_bytes,
                                       const Table table[4])
{
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < stretch_bytes; i += 8) {
        sum = STEP_8(sum, load_u64(data + i));
        second = STEP_8(second, load_u64(data + stretch_bytes + i));
        third = STEP_8(third, load_u64(data + 2 * stretch_bytes + i));
    }
    return advanced(table, advanced(table, sum) ^ second) ^ third;
}

WITH_INSTRUCTION
static uint32_t by_instruction(uint32_t sum, const uint8_t *data, size_t size)
{
    for (; size >= 3 * LONG_BYTES; data += 3 * LONG_BYTES, size -= 3 * LONG_BYTES)
        sum = three_stretches(sum, data, LONG_BYTES, over_long);
    for (; size >= 3 * SHORT_BYTES; data += 3 * SHORT_BYTES, size -= 3 * SHORT_BYTES)
        sum = three_stretches(sum, data, SHORT_BYTES, over_short);
    for (; size >= 8; data += 8, size -= 8)
        sum = STEP_8(sum, load_u64(data));
    for (; size; size--)
        sum = STEP_1(sum, *data++);
    return sum;
}
#endif

#if defined(HAS_INSTRUCTION) && defined(__x86_64__) && \
    (defined(__clang__) ? __clang_major__ >= 8 : __GNUC__ >= 9)
#include <immintrin.h>
#define HAS_FOLDING
#define WITH_FOLDING __attribute__((target("sse4.2,avx512f,avx512dq,vpclmulqdq,pclmul")))
#define FOLDED_BYTES ((size_t)256)
#define FOLDING_BYTES_MIN ((size_t)1024)

static uint64_t fold_low, fold_high; /* what a lane's first and second half are multiplied by */

static int processor_can_fold(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul");
}

/* A product of two reflected halves is one power of x too low: hence the - 1. */
static void make_folding(void)
{
    fold_low = (uint64_t)power_of_x(8 * (uint32_t)FOLDED_BYTES + 64 - 1) << 32;
    fold_high = (uint64_t)power_of_x(8 * (uint32_t)FOLDED_BYTES - 1) << 32;
}

WITH_FOLDING
static inline __m512i folded(__m512i lanes, __m512i factors, const uint8_t *next)
{
    __m512i low = _mm512_clmulepi64_epi128(lanes, factors, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(lanes, factors, 0x11);
    return _mm512_ternarylogic_epi64(low, high, _mm512_loadu_si512(next), 0x96); /* xor of three */
}

WITH_FOLDING
static uint32_t by_folding(uint32_t sum, const uint8_t *data, size_t size)
{
    if (size < FOLDING_BYTES_MIN)
        return by_instruction(sum, data, size);
    uint8_t left[FOLDED_BYTES];
    __m512i lanes[4];
    __m512i factors = _mm512_broadcast_i64x2(_mm_set_epi64x((int64_t)fold_high, (int64_t)fold_low));
    for (int i = 0; i < 4; i++)
        lanes[i] = _mm512_loadu_si512(data + 64 * i);
    lanes[0] = _mm512_xor_si512(lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)sum)));
    for (data += FOLDED_BYTES, size -= FOLDED_BYTES; size >= FOLDED_BYTES;
         data += FOLDED_BYTES, size -= FOLDED_BYTES)
        for (int i = 0; i < 4; i++)
            lanes[i] = folded(lanes[i], factors, data + 64 * i);
    for (int i = 0; i < 4; i++)
        _mm512_storeu_si512(left + 64 * i, lanes[i]);
    return by_instruction(by_instruction(0, left, sizeof left), data, size);
}
#endif

static Way ways[3];
static const char *way_names[3];
static int way_count;

static void add_way(Way way, const char *name)
{
    ways[way_count] = way;
    way_names[way_count++] = name;
}

/* The best first. */
void crc32c_choose(void)
{
    if (way_count)
        return;
    make_tables();
#ifdef HAS_INSTRUCTION
    int has_it = processor_has_it();
#ifdef HAS_FOLDING
    make_folding();
    if (has_it && processor_can_fold())
        add_way(by_folding, "folding");
#endif
    if (has_it)
        add_way(by_instruction, "instruction");
#endif
    add_way(by_tables, "tables");
}

uint32_t crc32c_of(uint32_t initial, const uint8_t *data, size_t size)
{
    return ~ways[0](~initial, data, size);
}

static PyObject *sum_of(Way way, PyObject *data, uint32_t initial)
{
    Py_buffer view;
    if (borrow(data, &view) < 0)
        return NULL;
    uint32_t sum;
    if (view.len < GIL_BYTES_MIN)
        sum = ~way(~initial, view.buf, (size_t)view.len);
    else {
        Py_BEGIN_ALLOW_THREADS
        sum = ~way(~initial, view.buf, (size_t)view.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(sum);
}

/* crc32c(data, initial=0, way=0) */
PyObject *py_crc32c(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    unsigned long initial = 0, way = 0;
    if (count < 1 || count > 3) {
        PyErr_SetString(PyExc_TypeError, "crc32c takes data, initial and way");
        return NULL;
    }
    if (count > 1)
        initial = PyLong_AsUnsignedLong(arguments[1]);
    if (count > 2)
        way = PyLong_AsUnsignedLong(arguments[2]);
    if (PyErr_Occurred())
        return NULL;
    if (initial > UINT32_MAX || way >= (unsigned long)way_count) {
        PyErr_SetString(PyExc_ValueError, "initial or way is out of range");
        return NULL;
    }
    return sum_of(ways[way], arguments[0], (uint32_t)initial);
}

PyObject *py_crc32c_ways(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    PyObject *names = PyTuple_New(way_count);
    for (int i = 0; names != NULL && i < way_count; i++) {
        PyObject *name = PyUnicode_FromString(way_names[i]);
        if (name == NULL || PyTuple_SetItem(names, i, name) < 0) {
            Py_CLEAR(names);
            break;
        }
    }
    return names;
}
