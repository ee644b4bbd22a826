// Pairs of 128-bit vectors of 64-bit ARM, whose streaming stores take pairs (stnp).
#include "kernels.h"

#ifdef __aarch64__
#include <arm_neon.h>

typedef float64x2x2_t pair;

static inline pair load(const double *p)
{
    return (pair){{vld1q_f64(p), vld1q_f64(p + 2)}};
}

static inline void store(double *p, pair v)
{
    vst1q_f64(p, v.val[0]);
    vst1q_f64(p + 2, v.val[1]);
}

static inline void stream(double *p, pair v)
{
    __asm__ volatile("stnp %q1, %q2, [%0]" : : "r"(p), "w"(v.val[0]), "w"(v.val[1]) : "memory");
}

static inline pair set(double x)
{
    return (pair){{vdupq_n_f64(x), vdupq_n_f64(x)}};
}

static inline pair add(pair x, pair y)
{
    return (pair){{vaddq_f64(x.val[0], y.val[0]), vaddq_f64(x.val[1], y.val[1])}};
}

static inline pair mul(pair x, pair y)
{
    return (pair){{vmulq_f64(x.val[0], y.val[0]), vmulq_f64(x.val[1], y.val[1])}};
}

#define WIDTH 4
#define VEC pair
#define TARGET
#define LOAD load
#define STORE store
#define STREAM stream
#define SET set
#define ADD add
#define MUL mul
#define FENCE() ((void)0)
#define STREAMS true
#define ISA neon
#define SUPPORTED true
#include "kernels.inc"
#endif
