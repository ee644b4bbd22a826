#include "report.h"

static const char *const PAGES[] = {"normal", "transparent", "huge"};

// Stores are called streaming only if the instruction set makes them bypass the caches.
static const char *stores_name(const struct plan *plan)
{
    return plan->task.stores == STORES_STREAMING && plan->isa->streams ? "streaming" : "cached";
}

static double rate_b_s(const struct plan *plan, const struct result *r)
{
    double sum = 0;
    for (int i = 0; i < plan->cores; i++)
        sum += r->cores[i].rate_b_s;
    return sum;
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static void report_cores(FILE *out, const struct plan *plan)
{
    fprintf(out, "%d core%s, processor%s", plan->cores, plural(plan->cores), plural(plan->cores));
    for (int i = 0; i < plan->cores && !plan->free; i++)
        fprintf(out, " %d", plan->cpus[i]);
    if (plan->free)
        fprintf(out, " left to the system");
    fputc('\n', out);
}

void report_start(FILE *out, const struct plan *plan)
{
    const struct kernel *kernel = plan->task.kernel;
    fprintf(out, "membench: %s (%s), %s, %s stores\n", kernel->name, kernel->formula,
            plan->isa->name, stores_name(plan));
    report_cores(out, plan);
    const int arrays = kernel->arrays;
    fprintf(out, "%d array%s of %zu bytes a core, %s pages, ", arrays, plural(arrays),
            plan->task.array_b, PAGES[plan->pages]);
    if (plan->node >= 0)
        fprintf(out, "bound to NUMA node %d\n", plan->node);
    else
        fprintf(out, "near the core that uses them\n");
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
    fprintf(out, "FOM %s: %.6e B/s\n", plan->task.kernel->name, rate_b_s(plan, r));
}

static void json_figures(FILE *out, const struct plan *plan, const struct result *r)
{
    fprintf(out, " \"duration_s\": %g, \"window_s\": %.9g,", plan->duration_s, r->window_s);
    fprintf(out, " \"rate_b_s\": %.9g,\n", rate_b_s(plan, r));
}

static void json_core(FILE *out, const struct plan *plan, const struct result *r, int i)
{
    const struct core_result *core = &r->cores[i];
    fprintf(out, "%s\n  {\"cpu\": ", i ? "," : "");
    if (plan->free)
        fprintf(out, "null");
    else
        fprintf(out, "%d", plan->cpus[i]);
    fprintf(out, ", \"rate_b_s\": %.9g, \"iterations\": %ld, \"passes\": %ld}", core->rate_b_s,
            core->iterations, core->passes);
}

void report_json(FILE *out, const struct plan *plan, const struct result *r)
{
    const struct kernel *kernel = plan->task.kernel;
    const char *separator = "";
    fprintf(out, "{\"schema\": 1, \"kernel\": \"%s\", \"isa\": \"%s\", \"stores\": \"%s\",\n",
            kernel->name, plan->isa->name, stores_name(plan));
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
    for (int i = 0; i < plan->cores; i++)
        json_core(out, plan, r, i);
    fprintf(out, "]}\n");
}
