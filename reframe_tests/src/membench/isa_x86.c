// Vectors of x86: of 128 bits, which every 64-bit processor has, of 256 bits and of 512 bits.
#include "kernels.h"

#ifdef __x86_64__
#include <immintrin.h>

#define LOAD JOIN(_mm, BITS, _load_pd)
#define STORE JOIN(_mm, BITS, _store_pd)
#define STREAM JOIN(_mm, BITS, _stream_pd)
#define SET JOIN(_mm, BITS, _set1_pd)
#define ADD JOIN(_mm, BITS, _add_pd)
#define MUL JOIN(_mm, BITS, _mul_pd)
#define FENCE _mm_sfence
#define STREAMS true

#define ISA sse2
#define WIDTH 2
#define VEC __m128d
#define BITS
#define TARGET __attribute__((target("sse2")))
#define SUPPORTED __builtin_cpu_supports("sse2")
#include "kernels.inc"

#undef BITS
#define ISA avx2
#define WIDTH 4
#define VEC __m256d
#define BITS 256
#define TARGET __attribute__((target("avx2,fma")))
#define SUPPORTED (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#include "kernels.inc"

#undef BITS
#define ISA avx512
#define WIDTH 8
#define VEC __m512d
#define BITS 512
#define TARGET __attribute__((target("avx512f")))
#define SUPPORTED __builtin_cpu_supports("avx512f")
#include "kernels.inc"
#endif
