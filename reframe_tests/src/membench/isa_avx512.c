// 512-bit vectors of x86.
#include "kernels.h"

#ifdef __x86_64__
#include <immintrin.h>

#define WIDTH 8
#define VEC __m512d
#define TARGET __attribute__((target("avx512f")))
#define LOAD _mm512_load_pd
#define STORE _mm512_store_pd
#define STREAM _mm512_stream_pd
#define SET _mm512_set1_pd
#define ADD _mm512_add_pd
#define MUL _mm512_mul_pd
#define FENCE _mm_sfence
#include "kernels.inc"

static bool supported(void)
{
    return __builtin_cpu_supports("avx512f");
}

const struct isa isa_avx512 = {"avx512", supported, true, CODES};
#endif
