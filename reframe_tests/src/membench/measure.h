// Runs a kernel on several cores at once and returns the rate while all of them were busy.
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels.h"
#include "memory.h"

struct plan {
    const struct kernel *kernel;
    pass_fn *pass;
    int cores;
    // A processor for each thread; NULL does not bind threads.
    const int *cpus;
    // Bytes of each array of each core: the same for any number of cores.
    size_t array_b;
    int node;
    enum pages pages;
    double duration_s;
};

struct core_result {
    // Rate, and the iterations it was taken over; passes over the arrays in an iteration.
    double rate_b_s;
    long iterations, passes;
};

struct result {
    // Length of the time in which every core was busy.
    double window_s;
    struct core_result *cores;
    long pages_on_node[NODES_MAX];
};

// Returns NULL, or a line about what failed. `cores` of the result is allocated with malloc.
const char *measure(const struct plan *plan, struct result *result);

// Rate of each core within the window that all cores share: `ends[i]` holds the ends of the
// iterations of core i, `counts[i]` of them, of `bytes[i]` each. The first and the last iteration
// of a core are dropped, and so is whatever does not lie within all others' kept ones. Returns the
// length of the window, or 0 where some core has nothing left.
double steady_rates(int cores, double *const ends[], const size_t counts[], const double bytes[],
                    struct core_result results[]);

#endif
