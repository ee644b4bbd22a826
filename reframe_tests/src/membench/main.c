// membench: memory bandwidth of some cores at once, see docs/membench.md.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "options.h"

static const char *const PAGES[] = {"normal", "transparent", "huge"};

// Streaming stores are said only where they really go past the caches.
static const char *stores_name(const struct options *o)
{
    return o->stores == STORES_STREAMING && o->isa->streams ? "streaming" : "cached";
}

static void say_start(FILE *out, const struct options *o)
{
    fprintf(out, "membench: %s (%s), %s, %s stores\n", o->kernel->name, o->kernel->formula,
            o->isa->name, stores_name(o));
    fprintf(out, "%d cores, processors", o->cores);
    for (int i = 0; i < o->cores && !o->free; i++)
        fprintf(out, " %d", o->cpus[i]);
    if (o->free)
        fprintf(out, " left to the system");
    fprintf(out, "\n%d arrays of %zu bytes a core, %s pages, ", o->kernel->arrays, o->array_b,
            PAGES[o->pages]);
    if (o->node >= 0)
        fprintf(out, "bound to NUMA node %d\n", o->node);
    else
        fprintf(out, "near the core that uses them\n");
    fflush(out);
}

static double total_b_s(const struct options *o, const struct result *r)
{
    double sum = 0;
    for (int i = 0; i < o->cores; i++)
        sum += r->cores[i].rate_b_s;
    return sum;
}

static void say_result(FILE *out, const struct options *o, const struct result *r)
{
    fprintf(out, "pages found on NUMA nodes (of those asked about):");
    for (int node = 0; node < NODES_MAX; node++)
        if (r->pages_on_node[node] != 0)
            fprintf(out, " %d: %ld", node, r->pages_on_node[node]);
    fprintf(out, "\nall cores at work for %.3f s; results are right\n", r->window_s);
    fprintf(out, "FOM %s: %.6e B/s\n", o->kernel->name, total_b_s(o, r));
}

static void write_json(FILE *out, const struct options *o, const struct result *r)
{
    const char *separator = "";
    fprintf(out, "{\"schema\": 1, \"kernel\": \"%s\", \"isa\": \"%s\", \"stores\": \"%s\",\n",
            o->kernel->name, o->isa->name, stores_name(o));
    fprintf(out, " \"pages\": \"%s\", \"array_b\": %zu, \"arrays\": %d, \"element_b\": %d,\n",
            PAGES[o->pages], o->array_b, o->kernel->arrays, o->kernel->element_b);
    if (o->node >= 0)
        fprintf(out, " \"node\": %d,\n", o->node);
    else
        fprintf(out, " \"node\": null,\n");
    fprintf(out, " \"pages_on_node\": {");
    for (int node = 0; node < NODES_MAX; node++)
        if (r->pages_on_node[node] != 0) {
            fprintf(out, "%s\"%d\": %ld", separator, node, r->pages_on_node[node]);
            separator = ", ";
        }
    fprintf(out, "},\n \"duration_s\": %g, \"window_s\": %.9g, \"rate_b_s\": %.9g,\n \"cores\": [",
            o->duration_s, r->window_s, total_b_s(o, r));
    for (int i = 0; i < o->cores; i++) {
        fprintf(out, "%s\n  {\"cpu\": ", i ? "," : "");
        if (o->free)
            fprintf(out, "null");
        else
            fprintf(out, "%d", o->cpus[i]);
        fprintf(out, ", \"rate_b_s\": %.9g, \"iterations\": %ld, \"passes\": %ld}",
                r->cores[i].rate_b_s, r->cores[i].iterations, r->cores[i].passes);
    }
    fprintf(out, "]}\n");
}

int main(int argc, char **argv)
{
    static struct options o;
    static struct result r;
    options_read(argc, argv, &o);
    const bool json_only = o.json != NULL && strcmp(o.json, "-") == 0;
    // Standard output is one JSON document where that was asked for.
    FILE *talk = json_only ? stderr : stdout;
    say_start(talk, &o);
    const struct code *code = &o.isa->codes[o.kernel->code];
    const struct plan plan = {
        .kernel = o.kernel,
        .pass = o.stores == STORES_STREAMING ? code->streaming : code->cached,
        .cores = o.cores,
        .cpus = o.free ? NULL : o.cpus,
        .array_b = o.array_b,
        .node = o.node,
        .pages = o.pages,
        .duration_s = o.duration_s,
    };
    const char *fault = measure(&plan, &r);
    if (fault != NULL) {
        fprintf(stderr, "membench: %s\n", fault);
        free(r.cores);
        return 3;
    }
    say_result(talk, &o, &r);
    FILE *json = json_only ? stdout : o.json != NULL ? fopen(o.json, "w") : NULL;
    if (json != NULL)
        write_json(json, &o, &r);
    const bool written = o.json == NULL || (json != NULL && fflush(json) == 0);
    if (!written)
        fprintf(stderr, "membench: %s cannot be written\n", o.json);
    if (json != NULL && !json_only)
        fclose(json);
    free(r.cores);
    return written ? 0 : 3;
}
