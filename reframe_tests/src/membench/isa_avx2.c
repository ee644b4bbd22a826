// 256-bit vectors of x86.
#include "kernels.h"

#ifdef __x86_64__
#include <immintrin.h>

#define WIDTH 4
#define VEC __m256d
#define TARGET __attribute__((target("avx2,fma")))
#define LOAD _mm256_load_pd
#define STORE _mm256_store_pd
#define STREAM _mm256_stream_pd
#define SET _mm256_set1_pd
#define ADD _mm256_add_pd
#define MUL _mm256_mul_pd
#define FENCE _mm_sfence
#include "kernels.inc"

static bool supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct isa isa_avx2 = {"avx2", supported, true, CODES};
#endif
