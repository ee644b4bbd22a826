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
    "  -n, --cores N       cores of the socket to use (all)\n"
    "      --socket S      that socket (the one of the first processor this process may use)\n"
    "      --cpu-node M    cores of that NUMA node instead\n"
    "      --cpus LIST     these processors instead, such as 0-3,8\n"
    "      --free          as many threads, left to the system instead of bound to cores\n"
    "  -m, --node M        NUMA node that the memory is bound to (near each core)\n"
    "  -s, --size SIZE     bytes of each array of each core, such as 64MiB (the core's arrays\n"
    "                      together four times the last-level cache)\n"
    "      --llc           arrays that fit into the last-level cache together: half of it\n"
    "      --pages KIND    normal, transparent (huge) or huge (reserved beforehand)\n"
    "      --stores KIND   cached, streaming (past the caches) or auto\n"
    "      --isa NAME      avx512, avx2, sse2 or portable (the best that the processor has)\n"
    "  -d, --duration S    seconds (2)\n"
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

// The index of `word` in a list that NULL ends.
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

static size_t size_b(const char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    char *end;
    const double value = strtod(text, &end);
    for (int i = 0; end != text && i < 4; i++)
        if (strcmp(end, units[i]) == 0 && value > 0 && value * (1 << 10 * i) <= 1e15)
            return (size_t)(value * (1 << 10 * i));
    refuse("--size %s: a size such as 512KiB, 64MiB or 1GiB is needed", text);
}

static void help(void)
{
    fputs(HELP, stdout);
    for (int i = 0; i < KERNEL_COUNT; i++)
        printf("  %-9s %-24s %2d bytes an element\n", KERNELS[i].name, KERNELS[i].formula,
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

// How large an array is by default, and how the results are stored, follow from the cache.
static void settle(struct options *o, bool fits, enum stores stores)
{
    const size_t llc_b = topology_llc_b(o->cpus[0]), grain_b = GRAIN * sizeof(double);
    const size_t arrays = (size_t)o->kernel->arrays, cores = (size_t)o->cores;
    if (fits)
        o->array_b = llc_b / 2 / arrays / cores;
    else if (o->array_b == 0)
        o->array_b = 4 * llc_b / arrays;
    o->array_b = o->array_b < grain_b ? grain_b : o->array_b / grain_b * grain_b;
    if (o->kernel->stores != STORES_AUTO && stores != STORES_AUTO && stores != o->kernel->stores)
        refuse("--stores: %s stores as its name says", o->kernel->name);
    o->stores = o->kernel->stores != STORES_AUTO ? o->kernel->stores : stores;
    if (o->stores == STORES_AUTO)
        o->stores = o->array_b * arrays * cores > llc_b ? STORES_STREAMING : STORES_CACHED;
}

void options_read(int argc, char **argv, struct options *o)
{
    enum { SOCKET = 256, CPU_NODE, CPUS, FREE, LLC, PAGES, STORES, ISA };
    static const struct option known[] = {
        {"cores", required_argument, NULL, 'n'},  {"socket", required_argument, NULL, SOCKET},
        {"cpus", required_argument, NULL, CPUS},  {"node", required_argument, NULL, 'm'},
        {"cpu-node", required_argument, NULL, CPU_NODE}, {"free", no_argument, NULL, FREE},
        {"size", required_argument, NULL, 's'},   {"llc", no_argument, NULL, LLC},
        {"pages", required_argument, NULL, PAGES}, {"stores", required_argument, NULL, STORES},
        {"isa", required_argument, NULL, ISA},    {"duration", required_argument, NULL, 'd'},
        {"json", required_argument, NULL, 'j'},   {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    static const char *const pages[] = {"normal", "transparent", "huge", NULL};
    static const char *const stores[] = {"cached", "streaming", "auto", NULL};
    const char *cpus = NULL, *isa = NULL;
    int socket = -1, cpu_node = -1, wanted = STORES_AUTO;
    bool fits = false;
    *o = (struct options){.node = -1, .duration_s = 2};
    for (int option; (option = getopt_long(argc, argv, "n:m:s:d:j:h", known, NULL)) != -1;)
        switch (option) {
        case 'n': o->cores = integer("--cores", optarg, 1, CPUS_MAX); break;
        case SOCKET: socket = integer("--socket", optarg, 0, CPUS_MAX); break;
        case CPU_NODE: cpu_node = integer("--cpu-node", optarg, 0, NODES_MAX - 1); break;
        case FREE: o->free = true; break;
        case CPUS: cpus = optarg; break;
        case 'm': o->node = integer("--node", optarg, 0, NODES_MAX - 1); break;
        case 's': o->array_b = size_b(optarg); break;
        case LLC: fits = true; break;
        case PAGES: o->pages = (enum pages)choice("--pages", optarg, pages); break;
        case STORES: wanted = choice("--stores", optarg, stores); break;
        case ISA: isa = optarg; break;
        case 'd': o->duration_s = number("--duration", optarg, 0.01, 86400); break;
        case 'j': o->json = optarg; break;
        case 'h': help(); break;
        default: exit(2);
        }
    if (optind + 1 != argc)
        refuse("one kernel is needed, see --help");
    if ((cpus != NULL) + (cpu_node >= 0) + (socket >= 0) + o->free > 1)
        refuse("--socket, --cpu-node, --cpus and --free exclude each other");
    if (fits && o->array_b != 0)
        refuse("--llc and --size exclude each other");
    o->kernel = kernel(argv[optind]);
    const int found = cpus ? topology_list(cpus, o->cpus) : topology_cores(socket, cpu_node, o->cpus);
    if (found < 0)
        refuse("--cpus %s: a list such as 0-3,8 is needed", cpus);
    if (found == 0 || o->cores > found)
        refuse("--cores %d: %d are there to use", o->cores, found);
    o->cores = o->cores ? o->cores : found;
    o->isa = isa_choose(isa);
    if (o->isa == NULL)
        refuse("--isa %s: not an instruction set that this processor has", isa);
    settle(o, fits, (enum stores)wanted);
}
