// Runs a kernel on several cores at once and measures their rates while all of them are busy.
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels.h"
#include "memory.h"
#include "topology.h"

// The work of each core.
struct task {
    const struct kernel *kernel;
    enum stores stores;
    // Bytes of each array of each core: the same for any number of cores.
    size_t array_b;
};

struct plan {
    const struct isa *isa;
    struct task task;
    // `task` runs on the first `cores` processors of `cpus`.
    int cores;
    int cpus[CPUS_MAX];
    // True if threads are not bound; `cpus` then only limits their number.
    bool free;
    // NUMA node to which the memory is bound. With -1, each core's memory is near that core.
    int node;
    enum pages pages;
    double duration_s;
};

struct core_result {
    // Rate of the iterations in the window, their number, and the passes of each iteration.
    double rate_b_s;
    long iterations, passes;
};

struct result {
    // Length of the time in which every core was busy.
    double window_s;
    struct core_result *cores;
    // Number of pages on each NUMA node, of a sample of the pages.
    long pages_on_node[NODES_MAX];
    // Memory of all arrays, and the part in huge pages; -1 if the kernel does not report this part.
    size_t memory_b;
    long huge_b;
};

// Returns NULL or, if it fails, a message of one line. The caller frees `cores` of the result.
const char *measure(const struct plan *plan, struct result *result);

// Computes the rate of each core within the window that all cores share. `ends_s[i]` has the times
// at which the `counts[i]` iterations of core i ended; each moved `iteration_b[i]` bytes. The first
// and the last iteration of each core are dropped. The window is the time that the other iterations
// of all cores have in common. Only iterations within the window count. Returns the window's length
// in seconds, or 0 if a core has no iteration in it.
double steady_rates(int cores, double *const ends_s[], const size_t counts[],
                    const double iteration_b[], struct core_result results[]);

#endif
