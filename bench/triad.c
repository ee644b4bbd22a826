// A plain triad loop: a = b + s c on vectors, with streaming stores; each thread has a part of the
// arrays. Arguments: doubles in an array, seconds. Prints bytes per second.
#include <immintrin.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__AVX512F__)
typedef __m512d vec;
#define STREAM _mm512_stream_pd
#elif defined(__AVX__)
typedef __m256d vec;
#define STREAM _mm256_stream_pd
#else
typedef __m128d vec;
#define STREAM _mm_stream_pd
#endif

static void triad(vec *a, const vec *b, const vec *c, long vectors)
{
#pragma omp parallel for schedule(static)
    for (long i = 0; i < vectors; i++)
        STREAM((double *)&a[i], b[i] + 3.0 * c[i]);
    _mm_sfence();
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const long vectors = atol(argv[1]) / (long)(sizeof(vec) / sizeof(double));
    const size_t array_b = (size_t)vectors * sizeof(vec);
    vec *a = aligned_alloc(sizeof(vec), array_b);
    vec *b = aligned_alloc(sizeof(vec), array_b);
    vec *c = aligned_alloc(sizeof(vec), array_b);
    if (!a || !b || !c)
        return 3;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < vectors; i++) {
        a[i] = (vec){0};
        b[i] = a[i] + 1.0;
        c[i] = a[i] + 2.0;
    }
    triad(a, b, c, vectors);
    long passes = 0;
    const double start_s = omp_get_wtime();
    double used_s = 0;
    for (; used_s < atof(argv[2]); used_s = omp_get_wtime() - start_s, passes++)
        triad(a, b, c, vectors);
    if (*(double *)&a[vectors / 2] != 7.0)
        return 1;
    printf("%.0f\n", 3.0 * (double)array_b * (double)passes / used_s);
    free(a), free(b), free(c);
    return 0;
}
