// Runs kernels on several cores at once and returns their rates while all of them were busy.
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels.h"
#include "memory.h"
#include "topology.h"

// What a core runs.
struct task {
    const struct kernel *kernel;
    enum stores stores;
    // Bytes of each array of each core: the same for any number of cores.
    size_t array_b;
};

struct plan {
    const struct isa *isa;
    struct task task;
    // `task` runs on the first `cores` of `cpus`.
    int cores;
    int cpus[CPUS_MAX];
    // Threads go where the system puts them; `cpus` only says how many there may be.
    bool free;
    int node;
    enum pages pages;
    double duration_s;
};

struct core_result {
    // Bytes per second of all iterations that count; how many they are, and the passes of each.
    double rate;
    long iterations, passes;
};

struct result {
    // Length of the time in which every core was busy.
    double window_s;
    struct core_result *cores;
    long pages_on_node[NODES_MAX];
    // Memory of all arrays, and how much of it lies in huge pages; -1 where the kernel says nothing.
    size_t memory_b;
    long huge_b;
};

// Returns NULL, or a line about what failed. `cores` of the result is allocated with malloc.
const char *measure(const struct plan *plan, struct result *result);

// Rate of each core within the window that all cores share: `ends[i]` holds the ends of the
// iterations of core i, `counts[i]` of them, of `amounts[i]` each. The first and the last iteration
// of a core are dropped, and so is whatever does not lie within all others' kept ones. Returns the
// length of the window, or 0 where some core has nothing left.
double steady_rates(int cores, double *const ends[], const size_t counts[], const double amounts[],
                    struct core_result results[]);

#endif
