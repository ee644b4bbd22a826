#include "work.h"

// A value that no kernel writes.
static const double INVALID = -1.0;

// Returns element i of an input: a small whole number, so that sums are exact in any order.
static double input(int array, size_t i)
{
    return array == 1 ? (double)(1 + i % 7) : (double)(2 + i % 11);
}

// Returns element i of the kernel's result after the passes so far.
static double formula(const struct work *w, size_t i)
{
    const double b = input(1, i), c = input(2, i);
    switch (w->kernel->code) {
    case CODE_COPY: return b;
    case CODE_SCALE: return FACTOR * b;
    case CODE_ADD: return b + c;
    case CODE_TRIAD: return b + FACTOR * c;
    case CODE_MIX: return input(0, i) + FACTOR * (double)w->passes;
    default: return FACTOR;
    }
}

void work_fill(struct work *w)
{
    // Other kernels only write the first array. For `read` and `mix`, it is an input.
    const bool writes_first_array = w->kernel->code != CODE_READ && w->kernel->code != CODE_MIX;
    w->sum = 0;
    for (int k = 0; k < w->kernel->arrays; k++)
        for (size_t i = 0; i < w->n; i++) {
            w->arrays[k][i] = k == 0 && writes_first_array ? INVALID : input(k, i);
            w->sum += k == 0 ? w->arrays[0][i] : 0;
        }
}

void work_pass(struct work *w)
{
    // The step is prime, so that the checked elements are spread over the array.
    const size_t checked = (size_t)w->passes * 1000003 % w->n;
    const int code = w->kernel->code;
    double *a = w->arrays[0];
    if (code == CODE_READ) {
        a[checked] += 1;
        w->sum += 1;
    } else if (code != CODE_MIX) {
        a[checked] = INVALID;
    }
    const double sum = w->pass(a, w->arrays[1], w->arrays[2], w->n);
    w->passes++;
    w->skipped |= code == CODE_READ ? sum != w->sum : a[checked] != formula(w, checked);
}

double work_pass_b(const struct work *w)
{
    return (double)w->n * w->kernel->element_b;
}

bool work_is_right(const struct work *w)
{
    for (size_t i = 0; i < w->n && w->kernel->code != CODE_READ; i++)
        if (w->arrays[0][i] != formula(w, i))
            return false;
    return !w->skipped;
}
