#define _GNU_SOURCE
#include "measure.h"

#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

// An iteration lasts at least this long, so that reading the clock takes a negligible part.
static const double ITERATION_S = 2e-3;
// There is room for the times of iterations that are shorter than ITERATION_S by this factor.
enum { SHORTENING_MAX = 4 };
// Largest growth of the number of passes from one trial to the next, and the margin of a trial.
static const double GROWTH_MAX = 16, GROWTH_MARGIN = 1.1;
// Minimum number of iterations of a core, even if they outlast the duration.
enum { ITERATIONS_MIN = 5, CAPACITY_MIN = 64 };

struct core {
    struct work work;
    size_t array_b;
    // Times at which iterations ended, their number, and the room for them.
    double *ends_s;
    size_t count, capacity;
    // Passes of an iteration, and passes before the first iteration.
    long passes, warm_up_passes;
    // NUMA node that the core's pages must be on if that node has memory; -1 if any node will do.
    int node;
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

static struct work work_of(const struct plan *plan)
{
    const struct task *task = &plan->task;
    const struct code *code = &plan->isa->codes[task->kernel->code];
    return (struct work){.kernel = task->kernel, .n = task->array_b / sizeof(double),
                         .pass = task->stores == STORES_STREAMING ? code->streaming : code->cached};
}

// Returns the NUMA node whose memory a thread must get: the requested node, or its core's node.
static int memory_node(const struct plan *plan)
{
    unsigned node;
    if (plan->node >= 0 || plan->free)
        return plan->node;
    // The C library has a function for this call since glibc 2.29 only.
    return syscall(SYS_getcpu, NULL, &node, NULL) == 0 ? (int)node : -1;
}

static const char *prepare(const struct plan *plan, int thread, struct core *core)
{
    if (!plan->free && !pin(plan->cpus[thread]))
        return "a thread could not be bound to its processor";
    core->node = memory_node(plan);
    core->work = work_of(plan);
    core->array_b = core->work.n * sizeof(double);
    for (int k = 0; k < core->work.kernel->arrays; k++) {
        core->work.arrays[k] = memory_map(core->array_b, plan->node, plan->pages);
        if (core->work.arrays[k] == NULL)
            return plan->pages == PAGES_HUGE ? "no memory (are huge pages reserved?)"
                                             : "no memory, or it cannot be bound to that node";
    }
    work_fill(&core->work);
    core->capacity = (size_t)(plan->duration_s / ITERATION_S * SHORTENING_MAX) + CAPACITY_MIN;
    core->ends_s = malloc(core->capacity * sizeof *core->ends_s);
    return core->ends_s == NULL ? "no memory for the times" : NULL;
}

// Returns the number of passes over the arrays that an iteration needs; also warms up. Two trials
// in a row must last long enough, since an interruption may lengthen a single trial. With too few
// passes, the room for times would be used up early.
static long passes_needed(struct core *core)
{
    long passes = 1;
    for (int long_trials = 0;;) {
        const double start_s = now_s();
        for (long i = 0; i < passes; i++)
            work_pass(&core->work);
        core->warm_up_passes += passes;
        const double took_s = now_s() - start_s;
        if (took_s >= ITERATION_S) {
            if (++long_trials == 2)
                return passes;
            continue;
        }
        long_trials = 0;
        const double needed = took_s > 0 ? ITERATION_S / took_s : GROWTH_MAX;
        const double growth = needed < GROWTH_MAX ? GROWTH_MARGIN * needed : GROWTH_MAX;
        passes = (long)ceil((double)passes * growth);
    }
}

static void iterate(struct core *core, double until_s)
{
    do {
        for (long i = 0; i < core->passes; i++)
            work_pass(&core->work);
        core->ends_s[core->count++] = now_s();
    } while (core->count < ITERATIONS_MIN ||
             (core->ends_s[core->count - 1] < until_s && core->count < core->capacity));
}

// Returns whether the results are right, and all counted passes were made.
static bool results_are_right(const struct core *core)
{
    return work_is_right(&core->work) &&
           core->work.passes == core->warm_up_passes + core->passes * (long)core->count;
}

static const char *fill_rates(int count, const struct core *cores, struct result *result)
{
    double **ends_s = calloc((size_t)count, sizeof *ends_s);
    size_t *counts = calloc((size_t)count, sizeof *counts);
    double *iteration_b = calloc((size_t)count, sizeof *iteration_b);
    const char *fault = ends_s && counts && iteration_b ? NULL : "no memory for the rates";
    for (int i = 0; fault == NULL && i < count; i++) {
        ends_s[i] = cores[i].ends_s;
        counts[i] = cores[i].count;
        iteration_b[i] = work_pass_b(&cores[i].work) * (double)cores[i].passes;
        result->cores[i].passes = cores[i].passes;
    }
    if (fault == NULL) {
        result->window_s = steady_rates(count, ends_s, counts, iteration_b, result->cores);
        if (result->window_s <= 0)
            fault = "too short: no time in which all cores were busy (increase --duration)";
    }
    free(ends_s);
    free(counts);
    free(iteration_b);
    return fault;
}

// Adds a core's pages to the counts of each node. Fails if pages are on another node than required.
static const char *count_pages(const struct core *core, struct result *result)
{
    static long counts[NODES_MAX];
    for (int node = 0; node < NODES_MAX; node++)
        counts[node] = 0;
    for (int k = 0; k < core->work.kernel->arrays; k++)
        if (memory_count_pages(core->work.arrays[k], core->array_b, counts) != 0)
            return "the kernel does not report the placement of pages (move_pages)";
    const bool any_node = core->node < 0 || !topology_has_memory(core->node);
    for (int node = 0; node < NODES_MAX; node++) {
        if (!any_node && node != core->node && counts[node] != 0)
            return "pages are on another node than requested, or than their core";
        result->pages_on_node[node] += counts[node];
    }
    return NULL;
}

// Fills the result's fields about memory: pages on each node, size, and the part in huge pages.
static const char *examine_memory(int count, const struct plan *plan, const struct core *cores,
                                  struct result *result)
{
    for (int i = 0; i < count; i++) {
        const char *fault = count_pages(&cores[i], result);
        if (fault != NULL)
            return fault;
        for (int k = 0; k < cores[i].work.kernel->arrays; k++)
            result->memory_b += memory_of_pages_b(cores[i].array_b, plan->pages);
    }
    result->huge_b = memory_huge_b();
    // A tenth may lie in other pages, since the system needs contiguous memory for huge pages.
    if (plan->pages == PAGES_TRANSPARENT && (double)result->huge_b < 0.9 * (double)result->memory_b)
        return "less than 90 % of the memory lies in transparent huge pages (see"
               " /sys/kernel/mm/transparent_hugepage/enabled)";
    return NULL;
}

const char *measure(const struct plan *plan, struct result *result)
{
    const int count = plan->cores;
    struct core *cores = calloc((size_t)count, sizeof *cores);
    result->cores = calloc((size_t)count, sizeof *result->cores);
    if (cores == NULL || result->cores == NULL) {
        free(cores);
        return "no memory";
    }
    double until_s = 0;
    bool ready = true;
    const char *fault = NULL;
    omp_set_dynamic(0); // OMP_DYNAMIC would allow fewer threads
#pragma omp parallel num_threads(count)
    {
        const int i = omp_get_thread_num();
        struct core *core = &cores[i];
        core->fault = omp_get_num_threads() == count ? prepare(plan, i, core)
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
            if (!results_are_right(core))
                core->fault = "wrong results";
        }
    }
    for (int i = 0; fault == NULL && i < count; i++)
        fault = cores[i].fault;
    if (fault == NULL)
        fault = examine_memory(count, plan, cores, result);
    if (fault == NULL)
        fault = fill_rates(count, cores, result);
    for (int i = 0; i < count; i++)
        free(cores[i].ends_s);
    free(cores);
    return fault;
}
