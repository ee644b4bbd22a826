#define _GNU_SOURCE
#include "topology.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const CPU = "/sys/devices/system/cpu/cpu%d/%s";
// Largest number of caches that a processor has in sysfs.
enum { CACHES_MAX = 8 };

// Returns the number in a file of a processor's folder in sysfs; `fallback` if it has no number.
static long cpu_number(int cpu, const char *file, long fallback)
{
    char path[128];
    snprintf(path, sizeof path, CPU, cpu, file);
    FILE *in = fopen(path, "r");
    long value = fallback;
    if (in != NULL) {
        if (fscanf(in, "%ld", &value) != 1)
            value = fallback;
        fclose(in);
    }
    return value;
}

// Reads a list such as 0-3,8 from a file and marks its numbers; returns false if there is no file.
static bool mark_listed(const char *path, bool marked[CPUS_MAX])
{
    static int list[CPUS_MAX];
    static char text[1 << 16];
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return false;
    const int found = fscanf(in, "%65535s", text) == 1 ? topology_list(text, list) : 0;
    fclose(in);
    for (int i = 0; i < found; i++)
        marked[list[i]] = true;
    return true;
}

// Returns the index of a processor's largest cache in sysfs; -1 if unknown.
static int last_cache(int cpu)
{
    int last = -1;
    long largest_kib = 0;
    for (int index = 0; index < CACHES_MAX; index++) {
        char file[64];
        snprintf(file, sizeof file, "cache/index%d/size", index);
        // The file has a number such as 32768K; the kernel always counts in KiB.
        const long size_kib = cpu_number(cpu, file, 0);
        if (size_kib > largest_kib) {
            largest_kib = size_kib;
            last = index;
        }
    }
    return last;
}

// Returns a processor and its place. A last-level cache is named after the first processor on it.
static struct hw_thread hw_thread_of(int cpu, long package)
{
    char file[64];
    snprintf(file, sizeof file, "cache/index%d/shared_cpu_list", last_cache(cpu));
    return (struct hw_thread){.cpu = cpu, .package = package, .cache = cpu_number(cpu, file, 0)};
}

int topology_cores(int socket, int node, enum order order, int cpus[CPUS_MAX], int *cores)
{
    static bool in_node[CPUS_MAX];
    static struct hw_thread threads[CPUS_MAX];
    static long first_threads[CPUS_MAX], first_of_l1[CPUS_MAX];
    cpu_set_t *allowed = CPU_ALLOC(CPUS_MAX);
    const size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    int count = 0;
    *cores = 0;
    if (node >= 0) {
        char path[64];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
        memset(in_node, 0, sizeof in_node);
        mark_listed(path, in_node);
    }
    if (allowed == NULL || sched_getaffinity(0, size, allowed) != 0) {
        CPU_FREE(allowed);
        return 0;
    }
    for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!CPU_ISSET_S(cpu, size, allowed) || (node >= 0 && !in_node[cpu]))
            continue;
        const long package = cpu_number(cpu, "topology/physical_package_id", 0);
        if (socket == SOCKET_FIRST)
            socket = (int)package;
        if (package != socket && node < 0 && socket != SOCKET_ALL)
            continue;
        threads[count] = hw_thread_of(cpu, package);
        // A core is named after its first thread, since its number is unique only within a socket,
        // a die or, on ARM, a cluster.
        const long first = cpu_number(cpu, "topology/thread_siblings_list", cpu);
        first_threads[count] = first;
        // Cores of a compute unit (AMD's family 15h) are siblings, with an L1 data cache each.
        first_of_l1[count] = cpu_number(cpu, "cache/index0/shared_cpu_list", first);
        for (int i = 0; i < count; i++)
            threads[count].sibling +=
                first_threads[i] == first && first_of_l1[i] == first_of_l1[count];
        count++;
    }
    CPU_FREE(allowed);
    topology_sort(threads, count, order);
    for (int i = 0; i < count; i++) {
        cpus[i] = threads[i].cpu;
        *cores += threads[i].sibling == 0;
    }
    return count;
}

bool topology_has_memory(int node)
{
    static bool marked[CPUS_MAX];
    return !mark_listed("/sys/devices/system/node/has_memory", marked) || marked[node];
}

int topology_list(const char *text, int cpus[CPUS_MAX])
{
    int count = 0;
    for (;;) {
        char *end;
        const long first = strtol(text, &end, 10);
        long last = first;
        if (end == text)
            return -1;
        if (*end == '-') {
            text = end + 1;
            last = strtol(text, &end, 10);
            if (end == text)
                return -1;
        }
        if (first < 0 || last < first || last >= CPUS_MAX || count + last - first >= CPUS_MAX)
            return -1;
        for (long cpu = first; cpu <= last; cpu++)
            cpus[count++] = (int)cpu;
        if (*end == '\0')
            return count;
        if (*end != ',')
            return -1;
        text = end + 1;
    }
}

size_t topology_llc_b(int cpu)
{
    char file[64];
    snprintf(file, sizeof file, "cache/index%d/size", last_cache(cpu));
    const size_t size_b = (size_t)cpu_number(cpu, file, 0) * 1024;
    return size_b ? size_b : (size_t)32 << 20;
}
