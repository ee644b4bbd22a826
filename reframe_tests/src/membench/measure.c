#define _GNU_SOURCE
#include "measure.h"

#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "work.h"

// An iteration lasts at least this long, so that reading the clock costs nothing.
static const double ITERATION_S = 2e-3;
// Iterations that each core makes even where they outlast the duration: first and last are dropped.
enum { ITERATIONS_MIN = 5 };

struct core {
    struct work work;
    double *ends;
    size_t count, capacity;
    // Passes of an iteration, and those before the first.
    long passes, warm_up;
    const char *fault;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool pin(int cpu)
{
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    const size_t size = CPU_ALLOC_SIZE((size_t)cpu + 1);
    if (set == NULL)
        return false;
    CPU_ZERO_S(size, set);
    CPU_SET_S((size_t)cpu, size, set);
    const bool done = sched_setaffinity(0, size, set) == 0;
    CPU_FREE(set);
    return done;
}

static const char *prepare(const struct plan *plan, int thread, struct core *core)
{
    core->work = (struct work){
        .kernel = plan->kernel, .pass = plan->pass, .n = plan->array_b / sizeof(double)};
    if (plan->cpus != NULL && !pin(plan->cpus[thread]))
        return "a thread could not be bound to its processor";
    for (int k = 0; k < plan->kernel->arrays; k++) {
        core->work.arrays[k] = memory_map(plan->array_b, plan->node, plan->pages);
        if (core->work.arrays[k] == NULL)
            return plan->pages == PAGES_HUGE ? "no memory (are huge pages reserved?)"
                                             : "no memory, or it cannot be bound to that node";
    }
    work_fill(&core->work);
    core->capacity = (size_t)(plan->duration_s / ITERATION_S * 4) + 64;
    core->ends = malloc(core->capacity * sizeof *core->ends);
    return core->ends == NULL ? "no memory for the times" : NULL;
}

// Passes over the arrays that last an iteration; also warms up.
static long passes_needed(struct core *core)
{
    long passes = 1;
    for (;;) {
        const double start_s = now_s();
        for (long i = 0; i < passes; i++)
            work_pass(&core->work);
        core->warm_up += passes;
        const double took_s = now_s() - start_s;
        if (took_s >= ITERATION_S)
            return passes;
        const double more = took_s > 0 ? ITERATION_S / took_s : 16;
        passes = (long)ceil((double)passes * (more < 16 ? 1.1 * more : 16));
    }
}

static void iterate(struct core *core, double until_s)
{
    do {
        for (long i = 0; i < core->passes; i++)
            work_pass(&core->work);
        core->ends[core->count++] = now_s();
    } while (core->count < ITERATIONS_MIN ||
             (core->ends[core->count - 1] < until_s && core->count < core->capacity));
}

// Whether the results are right, of as many passes as were counted.
static bool right(const struct core *core)
{
    return work_right(&core->work) &&
           core->work.passes == core->warm_up + core->passes * (long)core->count;
}

static const char *rates(const struct plan *plan, const struct core *cores, struct result *result)
{
    const double pass_b = (double)plan->array_b / sizeof(double) * plan->kernel->element_b;
    double **ends = calloc((size_t)plan->cores, sizeof *ends);
    size_t *counts = calloc((size_t)plan->cores, sizeof *counts);
    double *bytes = calloc((size_t)plan->cores, sizeof *bytes);
    const char *fault = ends && counts && bytes ? NULL : "no memory for the rates";
    for (int i = 0; fault == NULL && i < plan->cores; i++) {
        ends[i] = cores[i].ends;
        counts[i] = cores[i].count;
        bytes[i] = pass_b * (double)cores[i].passes;
        result->cores[i].passes = cores[i].passes;
    }
    if (fault == NULL) {
        result->window_s = steady_rates(plan->cores, ends, counts, bytes, result->cores);
        if (result->window_s <= 0)
            fault = "too short: no time in which all cores were busy (increase --duration)";
    }
    free(ends);
    free(counts);
    free(bytes);
    return fault;
}

static const char *where(const struct plan *plan, const struct core *cores, struct result *result)
{
    for (int i = 0; i < plan->cores; i++)
        for (int k = 0; k < plan->kernel->arrays; k++)
            if (memory_count(cores[i].work.arrays[k], plan->array_b, result->pages_on_node) != 0)
                return "the kernel does not report the placement of pages (move_pages)";
    for (int node = 0; node < NODES_MAX; node++)
        if (plan->node >= 0 && node != plan->node && result->pages_on_node[node] != 0)
            return "pages are on another node than requested";
    return NULL;
}

const char *measure(const struct plan *plan, struct result *result)
{
    struct core *cores = calloc((size_t)plan->cores, sizeof *cores);
    result->cores = calloc((size_t)plan->cores, sizeof *result->cores);
    if (cores == NULL || result->cores == NULL) {
        free(cores);
        return "no memory";
    }
    double until_s = 0;
    bool ready = true;
    const char *fault = NULL;
#pragma omp parallel num_threads(plan->cores)
    {
        const int i = omp_get_thread_num();
        struct core *core = &cores[i];
        core->fault = omp_get_num_threads() == plan->cores
                          ? prepare(plan, i, core)
                          : "fewer threads than cores (OMP_THREAD_LIMIT?)";
        if (core->fault != NULL) {
#pragma omp atomic write
            ready = false;
        }
#pragma omp barrier
        if (ready) {
            core->passes = passes_needed(core);
#pragma omp barrier
#pragma omp single
            until_s = now_s() + plan->duration_s;
            iterate(core, until_s);
#pragma omp barrier
            if (!right(core))
                core->fault = "wrong results";
        }
    }
    for (int i = 0; fault == NULL && i < plan->cores; i++)
        fault = cores[i].fault;
    if (fault == NULL)
        fault = where(plan, cores, result);
    if (fault == NULL)
        fault = rates(plan, cores, result);
    for (int i = 0; i < plan->cores; i++)
        free(cores[i].ends);
    free(cores);
    return fault;
}
