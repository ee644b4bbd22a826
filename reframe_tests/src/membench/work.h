// A kernel's arrays, its passes over them, and the proof that every pass was made.
#ifndef WORK_H
#define WORK_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels.h"

struct work {
    const struct kernel *kernel;
    pass_fn *pass;
    double *arrays[3];
    // Doubles in each array.
    size_t n;
    // Passes so far, and whether one of them left out the element that was looked at.
    long passes;
    bool skipped;
    // What the next pass of `read` must return.
    double sum;
};

// Fills the arrays, which are mapped and touched first by the calling thread.
void work_fill(struct work *work);

// One pass over the arrays. An element, another one each time, is changed before it and checked
// after it.
void work_pass(struct work *work);

// Bytes of a pass.
double work_amount(const struct work *work);

// Whether no pass was skipped, and each element is what the formula and the passes say.
bool work_right(const struct work *work);

#endif
