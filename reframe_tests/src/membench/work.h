// A kernel's arrays, the passes over them, and the check that every pass was made.
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
    // Passes so far, and whether one of them left out the element that was checked.
    long passes;
    bool skipped;
    // The sum that the next pass of `read` must return.
    double sum;
};

// Fills the mapped arrays; the calling thread is the first to touch them.
void work_fill(struct work *work);

// Makes a pass over the arrays, and checks it. Before each pass, another element is changed. After
// the pass, the returned sum is checked for `read`, and this element for other kernels. For `mix`,
// no element is changed before a pass, since each pass changes all elements.
void work_pass(struct work *work);

// Returns the bytes that a pass reads and writes.
double work_pass_b(const struct work *work);

// Returns whether no pass was skipped, and every element has the value that the formula gives.
bool work_is_right(const struct work *work);

#endif
