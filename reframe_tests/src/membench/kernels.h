// The kernels: what they are, and how they are coded for one instruction set.
#ifndef KERNELS_H
#define KERNELS_H

#include <stdbool.h>
#include <stddef.h>

// Arrays have a multiple of this many doubles, so that no kernel needs a remainder loop.
enum { GRAIN = 64 };

// The factor of `scale` and `triad`, the number that `mix` adds, and the value that `write` and
// `nt_write` write.
#define FACTOR 3.0

// Makes one pass over n doubles. Returns their sum for `read`, and 0 for other kernels.
typedef double pass_fn(double *a, const double *b, const double *c, size_t n);

// How a kernel stores its results: through the caches, past the caches, or past the caches only if
// the arrays do not fit into them.
enum stores { STORES_CACHED, STORES_STREAMING, STORES_AUTO };

// The two functions of a kernel in an instruction set. They are the same if it does not stream.
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
    // Number of arrays that it uses (a, then b, then c), and bytes that it reads and writes per
    // element. As in STREAM, bytes that a cache reads before a line is written are not counted.
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
    // True if the `streaming` functions bypass the caches.
    bool streams;
    struct code codes[CODE_COUNT];
};

// Returns the instruction set with this name; for a NULL name, the best one of this processor.
// Returns NULL if this processor does not have the instruction set.
const struct isa *isa_choose(const char *name);

extern const struct isa isa_avx512, isa_avx2, isa_sse2, isa_neon, isa_portable;

#endif
