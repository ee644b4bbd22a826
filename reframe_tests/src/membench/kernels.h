// The kernels: what they are, and how they are coded for one instruction set.
#ifndef KERNELS_H
#define KERNELS_H

#include <stdbool.h>
#include <stddef.h>

// Arrays have a multiple of this many doubles, so that no kernel needs a remainder loop.
enum { GRAIN = 64 };

// Factor of scale and triad, what mix adds, and the value that the writing kernels write.
#define FACTOR 3.0

// One pass over n doubles. Returns the sum for `read`, 0 for others.
typedef double pass_fn(double *a, const double *b, const double *c, size_t n);

// How a kernel wants its results stored: through the caches, past them, or past them only where
// the arrays do not fit anyway.
enum stores { STORES_CACHED, STORES_STREAMING, STORES_AUTO };

// A kernel's two codes within an instruction set; the same where streaming is not known there.
struct code {
    pass_fn *cached, *streaming;
};

enum {
    CODE_COPY, CODE_SCALE, CODE_ADD, CODE_TRIAD, CODE_READ, CODE_WRITE, CODE_MIX,
    CODE_COUNT
};

struct kernel {
    const char *name, *formula;
    int code;
    enum stores stores;
    // Arrays that it uses (a, then b, then c) and bytes that it reads and writes per element.
    // What a cache reads to write part of a line is not counted, as in STREAM.
    int arrays, element_b;
};

static const struct kernel KERNELS[] = {
    {"copy", "a = b", CODE_COPY, STORES_AUTO, 2, 16},
    {"scale", "a = s b", CODE_SCALE, STORES_AUTO, 2, 16},
    {"add", "a = b + c", CODE_ADD, STORES_AUTO, 3, 24},
    {"triad", "a = b + s c", CODE_TRIAD, STORES_AUTO, 3, 24},
    {"read", "sum of a", CODE_READ, STORES_CACHED, 1, 8},
    {"write", "a = s", CODE_WRITE, STORES_CACHED, 1, 8},
    {"mix", "a = a + s, in place", CODE_MIX, STORES_CACHED, 1, 16},
    {"nt_write", "a = s, past the caches", CODE_WRITE, STORES_STREAMING, 1, 8},
};
enum { KERNEL_COUNT = sizeof KERNELS / sizeof KERNELS[0] };

struct isa {
    const char *name;
    bool (*supported)(void);
    // Whether `streaming` codes really go past the caches.
    bool streams;
    struct code codes[CODE_COUNT];
};

// The named instruction set, or the best that this processor has for NULL; NULL where it has not.
const struct isa *isa_choose(const char *name);

extern const struct isa isa_avx512, isa_avx2, isa_sse2, isa_neon, isa_portable;

#endif
