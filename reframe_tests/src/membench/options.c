#define _GNU_SOURCE
#include "options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
    "membench KERNEL [options]: memory bandwidth of n cores at once, each with its own arrays\n"
    "\n"
    "  -n, --cores N       cores to use (default: all of the socket)\n"
    "      --socket S      cores of that socket, or of all (default: the socket of the first\n"
    "                      processor that this process may use)\n"
    "      --cpu-node M    cores of that NUMA node instead\n"
    "      --cpus LIST     these processors instead, in this order, such as 0-3,8\n"
    "      --free          as many threads as cores, bound to none\n"
    "      --order ORDER   compact (one last-level cache after the other) or spread (each next\n"
    "                      core on the next socket and cache); second threads of cores come last\n"
    "                      (default: compact)\n"
    "  -m, --node M        NUMA node that the memory is bound to (default: near each core)\n"
    "  -s, --size SIZE     bytes of each array of each core, such as 64MiB (default: the arrays of\n"
    "                      a core together have four times the size of the last-level cache)\n"
    "      --pages KIND    normal, transparent (huge) or huge (reserved beforehand)\n"
    "                      (default: normal)\n"
    "      --stores KIND   cached, streaming (past the caches) or auto: as the kernel's name says,\n"
    "                      else streaming if the arrays of all cores exceed the last-level cache\n"
    "                      (default: auto)\n"
    "      --isa NAME      avx512, avx2, sse2, neon or portable (default: the first of them that\n"
    "                      the processor has)\n"
    "  -d, --duration S    seconds (default: 2)\n"
    "  -j, --json FILE     the result as JSON, - for standard output\n"
    "\n";

__attribute__((noreturn, format(printf, 1, 2))) static void refuse(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("membench: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(2);
}

// Returns the index of `word` in a list that ends with NULL.
static int choice(const char *option, const char *word, const char *const words[])
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    refuse("%s %s: see --help for what is allowed", option, word);
}

static double number(const char *option, const char *text, double least, double most)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= least && value <= most))
        refuse("%s %s: a number from %g to %g is needed", option, text, least, most);
    return value;
}

static int integer(const char *option, const char *text, int least, int most)
{
    const double value = number(option, text, least, most);
    if (value != (int)value)
        refuse("%s %s: a whole number is needed", option, text);
    return (int)value;
}

// Largest plausible size of an array, bytes.
static const double SIZE_MAX_B = 1e15;

static size_t size_b(const char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    char *end;
    const double value = strtod(text, &end);
    for (int i = 0; end != text && i < 4; i++) {
        const double bytes = value * (1 << 10 * i);
        if (strcmp(end, units[i]) == 0 && bytes >= 1 && bytes <= SIZE_MAX_B)
            return (size_t)bytes;
    }
    refuse("--size %s: a size such as 512KiB, 64MiB or 1GiB is needed", text);
}

static void help(void)
{
    fputs(HELP, stdout);
    for (int i = 0; i < KERNEL_COUNT; i++)
        printf("  %-9s %-38s %2d bytes an element\n", KERNELS[i].name, KERNELS[i].formula,
               KERNELS[i].element_b);
    exit(0);
}

static const struct kernel *kernel(const char *name)
{
    for (int i = 0; i < KERNEL_COUNT; i++)
        if (strcmp(name, KERNELS[i].name) == 0)
            return &KERNELS[i];
    refuse("there is no kernel %s: see --help", name);
}

// Sets the size of the arrays and the kind of stores. Their defaults depend on the cache.
static void complete_task(struct task *task, int cores, size_t llc_b, enum stores stores)
{
    const size_t grain_b = GRAIN * sizeof(double), arrays = (size_t)task->kernel->arrays;
    if (task->array_b == 0)
        task->array_b = 4 * llc_b / arrays;
    task->array_b = task->array_b < grain_b ? grain_b : task->array_b / grain_b * grain_b;
    if (task->kernel->stores != STORES_AUTO)
        stores = task->kernel->stores;
    if (stores == STORES_AUTO)
        stores = task->array_b * arrays * (size_t)cores > llc_b ? STORES_STREAMING : STORES_CACHED;
    task->stores = stores;
}

// Options that are resolved after the command line has been read.
struct request {
    const char *cpus, *isa;
    int socket, cpu_node, stores, order, cores;
};

static void check_options(const struct plan *plan, const struct request *request)
{
    const struct kernel *kernel = plan->task.kernel;
    const int selections = (request->cpus != NULL) + (request->cpu_node >= 0) +
                           (request->socket != SOCKET_FIRST) + plan->free;
    if (selections > 1)
        refuse("--socket, --cpu-node, --cpus and --free exclude each other");
    if (kernel->stores != STORES_AUTO && request->stores != STORES_AUTO &&
        request->stores != (int)kernel->stores)
        refuse("--stores: %s stores as its name says", kernel->name);
}

// Fills the plan's processors and their number; returns the default number of cores.
static int find_cpus(struct plan *plan, const struct request *request, int *cpu_count)
{
    int cores;
    if (request->cpus == NULL) {
        *cpu_count = topology_cores(request->socket, request->cpu_node, (enum order)request->order,
                                plan->cpus, &cores);
        return cores;
    }
    *cpu_count = topology_list(request->cpus, plan->cpus);
    if (*cpu_count < 0)
        refuse("--cpus %s: a list such as 0-3,8 is needed", request->cpus);
    static bool listed[CPUS_MAX];
    memset(listed, 0, sizeof listed);
    for (int i = 0; i < *cpu_count; i++) {
        if (listed[plan->cpus[i]])
            refuse("--cpus %s: processor %d is listed twice", request->cpus, plan->cpus[i]);
        listed[plan->cpus[i]] = true;
    }
    return *cpu_count;
}

static void choose_cores(struct plan *plan, const struct request *request)
{
    int cpu_count;
    const int cores = find_cpus(plan, request, &cpu_count);
    plan->cores = request->cores != 0 ? request->cores : cores;
    if (plan->cores < 1 || plan->cores > cpu_count)
        refuse("--cores %d: %d can be used", plan->cores, cpu_count);
}

void options_read(int argc, char **argv, struct options *o)
{
    enum { SOCKET = 256, CPU_NODE, CPUS, FREE, ORDER, PAGES, STORES, ISA };
    static const struct option known[] = {
        {"cores", required_argument, NULL, 'n'},  {"socket", required_argument, NULL, SOCKET},
        {"cpus", required_argument, NULL, CPUS},  {"node", required_argument, NULL, 'm'},
        {"cpu-node", required_argument, NULL, CPU_NODE}, {"free", no_argument, NULL, FREE},
        {"order", required_argument, NULL, ORDER},
        {"size", required_argument, NULL, 's'},
        {"pages", required_argument, NULL, PAGES}, {"stores", required_argument, NULL, STORES},
        {"isa", required_argument, NULL, ISA},    {"duration", required_argument, NULL, 'd'},
        {"json", required_argument, NULL, 'j'},   {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    static const char *const pages[] = {"normal", "transparent", "huge", NULL};
    static const char *const stores[] = {"cached", "streaming", "auto", NULL};
    static const char *const orders[] = {"compact", "spread", NULL};
    struct request request = {.socket = SOCKET_FIRST, .cpu_node = -1, .stores = STORES_AUTO};
    struct plan *plan = &o->plan;
    *o = (struct options){.plan = {.node = -1, .duration_s = 2}};
    for (int option; (option = getopt_long(argc, argv, "n:m:s:d:j:h", known, NULL)) != -1;)
        switch (option) {
        case 'n': request.cores = integer("--cores", optarg, 1, CPUS_MAX); break;
        case SOCKET:
            request.socket = strcmp(optarg, "all") == 0 ? SOCKET_ALL
                                                        : integer("--socket", optarg, 0, CPUS_MAX);
            break;
        case CPU_NODE: request.cpu_node = integer("--cpu-node", optarg, 0, NODES_MAX - 1); break;
        case FREE: plan->free = true; break;
        case CPUS: request.cpus = optarg; break;
        case ORDER: request.order = choice("--order", optarg, orders); break;
        case 'm': plan->node = integer("--node", optarg, 0, NODES_MAX - 1); break;
        case 's': plan->task.array_b = size_b(optarg); break;
        case PAGES: plan->pages = (enum pages)choice("--pages", optarg, pages); break;
        case STORES: request.stores = choice("--stores", optarg, stores); break;
        case ISA: request.isa = optarg; break;
        case 'd': plan->duration_s = number("--duration", optarg, 0.01, 86400); break;
        case 'j': o->json = optarg; break;
        case 'h': help(); break;
        default: exit(2);
        }
    if (optind + 1 != argc)
        refuse("one kernel is needed, see --help");
    plan->task.kernel = kernel(argv[optind]);
    check_options(plan, &request);
    choose_cores(plan, &request);
    plan->isa = isa_choose(request.isa);
    if (plan->isa == NULL)
        refuse("--isa %s: not an instruction set that this processor has", request.isa);
    const size_t llc_b = topology_llc_b(plan->cpus[0]);
    complete_task(&plan->task, plan->cores, llc_b, (enum stores)request.stores);
}
