// 128-bit vectors, which every x86-64 processor has.
#include "kernels.h"

#ifdef __x86_64__
#include <immintrin.h>

#define WIDTH 2
#define VEC __m128d
#define TARGET __attribute__((target("sse2")))
#define LOAD _mm_load_pd
#define STORE _mm_store_pd
#define STREAM _mm_stream_pd
#define SET _mm_set1_pd
#define ADD _mm_add_pd
#define MUL _mm_mul_pd
#define FENCE _mm_sfence
#include "kernels.inc"

static bool supported(void)
{
    return __builtin_cpu_supports("sse2");
}

const struct isa isa_sse2 = {"sse2", supported, true, CODES};
#endif
