#include "report.h"

static const char *const PAGES[] = {"normal", "transparent", "huge"};

// Streaming stores are said only where they really go past the caches.
static const char *stores_name(const struct plan *plan, const struct task *task)
{
    return task->stores == STORES_STREAMING && plan->isa->streams ? "streaming" : "cached";
}

static bool is_latency(const struct plan *plan)
{
    return plan->task.kernel->code == CODE_CHAIN;
}

static double sum_of(const struct result *r, int first, int count)
{
    double sum = 0;
    for (int i = first; i < first + count; i++)
        sum += r->cores[i].rate;
    return sum;
}

static double load_b_s(const struct plan *plan, const struct result *r)
{
    return sum_of(r, plan->cores, plan->load_cores);
}

// Mean over the cores that follow a chain.
static double latency_s(const struct plan *plan, const struct result *r)
{
    double sum_s = 0;
    for (int i = 0; i < plan->cores; i++)
        sum_s += 1 / r->cores[i].rate;
    return sum_s / plan->cores;
}

// Of the fastest iteration of any of them, which whatever else runs disturbs least.
static double least_latency_s(const struct plan *plan, const struct result *r)
{
    double fastest = 0;
    for (int i = 0; i < plan->cores; i++)
        fastest = r->cores[i].fastest > fastest ? r->cores[i].fastest : fastest;
    return 1 / fastest;
}

static int flops(const struct plan *plan)
{
    return 2 * plan->task.fmas;
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static void say_cores(FILE *out, const struct plan *plan, int first, int count)
{
    fprintf(out, "%d core%s, processor%s", count, plural(count), plural(count));
    for (int i = first; i < first + count && !plan->free; i++)
        fprintf(out, " %d", plan->cpus[i]);
    if (plan->free)
        fprintf(out, " left to the system");
    fputc('\n', out);
}

static void say_task(FILE *out, const char *title, const struct plan *plan, const struct task *task)
{
    fprintf(out, "%s: %s (%s), %s, %s stores\n", title, task->kernel->name, task->kernel->formula,
            task->kernel->code == CODE_CHAIN ? "portable" : plan->isa->name,
            stores_name(plan, task));
}

void report_start(FILE *out, const struct plan *plan)
{
    say_task(out, "membench", plan, &plan->task);
    say_cores(out, plan, 0, plan->cores);
    const int arrays = plan->task.kernel->arrays;
    fprintf(out, "%d array%s of %zu bytes a core, %s pages, ", arrays, plural(arrays),
            plan->task.array_b, PAGES[plan->pages]);
    if (plan->node >= 0)
        fprintf(out, "bound to NUMA node %d\n", plan->node);
    else
        fprintf(out, "near the core that uses them\n");
    if (plan->task.fmas > 0)
        fprintf(out, "%d flops per element\n", flops(plan));
    if (plan->load_cores > 0) {
        say_task(out, "load", plan, &plan->load);
        fprintf(out, "load on ");
        say_cores(out, plan, plan->cores, plan->load_cores);
    }
    fflush(out);
}

void report_result(FILE *out, const struct plan *plan, const struct result *r)
{
    fprintf(out, "pages found on NUMA nodes (of those asked about):");
    for (int node = 0; node < NODES_MAX; node++)
        if (r->pages_on_node[node] != 0)
            fprintf(out, " %d: %ld", node, r->pages_on_node[node]);
    if (r->huge_b >= 0)
        fprintf(out, "\nin huge pages: %ld of %zu bytes", r->huge_b, r->memory_b);
    else
        fprintf(out, "\nin huge pages: unknown of %zu bytes", r->memory_b);
    fprintf(out, "\nall cores at work for %.3f s; results are right\n", r->window_s);
    if (plan->load_cores > 0)
        fprintf(out, "load %s: %.6e B/s\n", plan->load.kernel->name, load_b_s(plan, r));
    if (is_latency(plan))
        fprintf(out, "fastest iteration: %.6e s\nFOM latency: %.6e s\n",
                least_latency_s(plan, r), latency_s(plan, r));
    else
        fprintf(out, "FOM %s: %.6e B/s\n", plan->task.kernel->name, sum_of(r, 0, plan->cores));
}

static void json_figures(FILE *out, const struct plan *plan, const struct result *r)
{
    fprintf(out, " \"duration_s\": %g, \"window_s\": %.9g,", plan->duration_s, r->window_s);
    if (is_latency(plan))
        fprintf(out, " \"latency_s\": %.9g, \"least_latency_s\": %.9g,\n", latency_s(plan, r),
                least_latency_s(plan, r));
    else
        fprintf(out, " \"rate_b_s\": %.9g,\n", sum_of(r, 0, plan->cores));
    if (plan->task.fmas > 0)
        fprintf(out, " \"flops_per_element\": %d,\n", flops(plan));
    if (plan->load_cores > 0)
        fprintf(out, " \"load\": {\"kernel\": \"%s\", \"stores\": \"%s\", \"array_b\": %zu,"
                     " \"cores\": %d, \"rate_b_s\": %.9g},\n",
                plan->load.kernel->name, stores_name(plan, &plan->load), plan->load.array_b,
                plan->load_cores, load_b_s(plan, r));
}

static void json_core(FILE *out, const struct plan *plan, const struct result *r, int i)
{
    const struct core_result *core = &r->cores[i];
    fprintf(out, "%s\n  {\"cpu\": ", i ? "," : "");
    if (plan->free)
        fprintf(out, "null");
    else
        fprintf(out, "%d", plan->cpus[i]);
    if (is_latency(plan) && i < plan->cores)
        fprintf(out, ", \"latency_s\": %.9g", 1 / core->rate);
    else
        fprintf(out, ", \"rate_b_s\": %.9g", core->rate);
    fprintf(out, ", \"iterations\": %ld, \"passes\": %ld}", core->iterations, core->passes);
}

void report_json(FILE *out, const struct plan *plan, const struct result *r)
{
    const struct kernel *kernel = plan->task.kernel;
    const char *separator = "";
    fprintf(out, "{\"schema\": 1, \"kernel\": \"%s\", \"isa\": \"%s\", \"stores\": \"%s\",\n",
            kernel->name, plan->isa->name, stores_name(plan, &plan->task));
    fprintf(out, " \"pages\": \"%s\", \"array_b\": %zu, \"arrays\": %d, \"element_b\": %d,\n",
            PAGES[plan->pages], plan->task.array_b, kernel->arrays, kernel->element_b);
    if (plan->node >= 0)
        fprintf(out, " \"node\": %d,\n", plan->node);
    else
        fprintf(out, " \"node\": null,\n");
    fprintf(out, " \"memory_b\": %zu, \"huge_b\": ", r->memory_b);
    if (r->huge_b >= 0)
        fprintf(out, "%ld,\n", r->huge_b);
    else
        fprintf(out, "null,\n");
    fprintf(out, " \"pages_on_node\": {");
    for (int node = 0; node < NODES_MAX; node++)
        if (r->pages_on_node[node] != 0) {
            fprintf(out, "%s\"%d\": %ld", separator, node, r->pages_on_node[node]);
            separator = ", ";
        }
    fprintf(out, "},\n");
    json_figures(out, plan, r);
    fprintf(out, " \"cores\": [");
    for (int i = 0; i < plan->cores + plan->load_cores; i++)
        json_core(out, plan, r, i);
    fprintf(out, "]}\n");
}
