#define _GNU_SOURCE
#include "topology.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const CPU = "/sys/devices/system/cpu/cpu%d/%s";

// The number in a file of a processor's folder in sysfs, or `missing`.
static long cpu_number(int cpu, const char *file, long missing)
{
    char path[128];
    snprintf(path, sizeof path, CPU, cpu, file);
    FILE *in = fopen(path, "r");
    long value = missing;
    if (in != NULL) {
        if (fscanf(in, "%ld", &value) != 1)
            value = missing;
        fclose(in);
    }
    return value;
}

// Marks the processors of a NUMA node; none where there is no such node.
static void mark_node(int node, bool marked[CPUS_MAX])
{
    static int list[CPUS_MAX];
    static char text[1 << 16];
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return;
    const int found = fscanf(in, "%65535s", text) == 1 ? topology_list(text, list) : 0;
    fclose(in);
    for (int i = 0; i < found; i++)
        marked[list[i]] = true;
}

int topology_cores(int socket, int node, int cpus[CPUS_MAX])
{
    static bool near[CPUS_MAX];
    cpu_set_t *allowed = CPU_ALLOC(CPUS_MAX);
    const size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    long cores[CPUS_MAX], dies[CPUS_MAX], packages[CPUS_MAX];
    int count = 0;
    if (node >= 0)
        mark_node(node, near);
    if (allowed == NULL || sched_getaffinity(0, size, allowed) != 0) {
        CPU_FREE(allowed);
        return 0;
    }
    for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!CPU_ISSET_S(cpu, size, allowed) || (node >= 0 && !near[cpu]))
            continue;
        const long package = cpu_number(cpu, "topology/physical_package_id", 0);
        // Numbers of cores may start again in each die.
        const long die = cpu_number(cpu, "topology/die_id", 0);
        const long core = cpu_number(cpu, "topology/core_id", cpu);
        if (socket < 0)
            socket = (int)package;
        bool sibling = false;
        for (int i = 0; i < count; i++)
            sibling |= cores[i] == core && dies[i] == die && packages[i] == package;
        if ((package == socket || node >= 0) && !sibling) {
            packages[count] = package;
            dies[count] = die;
            cores[count] = core;
            cpus[count++] = cpu;
        }
    }
    CPU_FREE(allowed);
    return count;
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
    size_t largest_b = 0;
    for (int index = 0; index < 8; index++) {
        char file[64];
        snprintf(file, sizeof file, "cache/index%d/size", index);
        // The file says for instance 32768K; the kernel always counts in KiB.
        const size_t size_b = (size_t)cpu_number(cpu, file, 0) * 1024;
        largest_b = size_b > largest_b ? size_b : largest_b;
    }
    return largest_b ? largest_b : (size_t)32 << 20;
}
