#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// MPOL_BIND of linux/mempolicy.h, a header that not every machine has. With this policy, memory is
// allocated on the given nodes only.
enum { POLICY_BIND = 2 };

enum { SAMPLE_MAX = 1024, HUGE_PAGE_B = 2 << 20 };

static int bind_to(void *memory, size_t size_b, int node)
{
    const unsigned bits = 8 * sizeof(unsigned long);
    unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
    nodes[(unsigned)node / bits] = 1UL << (unsigned)node % bits;
    // The kernel uses one bit less than `maxnode`.
    return (int)syscall(SYS_mbind, memory, size_b, POLICY_BIND, nodes, NODES_MAX + 1UL, 0U);
}

size_t memory_of_pages_b(size_t size_b, enum pages pages)
{
    const size_t page_b = pages == PAGES_NORMAL ? (size_t)sysconf(_SC_PAGESIZE) : HUGE_PAGE_B;
    return (size_b + page_b - 1) / page_b * page_b;
}

void *memory_map(size_t size_b, int node, enum pages pages)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (pages == PAGES_HUGE ? MAP_HUGETLB : 0);
    size_b = memory_of_pages_b(size_b, pages);
    // The spare bytes let the memory start at a boundary of transparent huge pages.
    const size_t spare_b = pages == PAGES_TRANSPARENT ? HUGE_PAGE_B : 0;
    char *mapped = mmap(NULL, size_b + spare_b, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    char *memory = mapped + (spare_b ? HUGE_PAGE_B - (uintptr_t)mapped % HUGE_PAGE_B : 0);
    // The kernel is advised for normal pages, too, so that the machine's default has no effect.
    const int advice = pages == PAGES_TRANSPARENT ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
    const int advise_status = pages == PAGES_HUGE ? 0 : madvise(memory, size_b, advice);
    if ((advise_status != 0 && pages == PAGES_TRANSPARENT) ||
        (node >= 0 && bind_to(memory, size_b, node) != 0)) {
        const int error = errno;
        munmap(mapped, size_b + spare_b);
        errno = error;
        return NULL;
    }
    return memory;
}

int memory_count_pages(const void *memory, size_t size_b, long counts[NODES_MAX])
{
    const size_t page_b = (size_t)sysconf(_SC_PAGESIZE);
    const size_t page_count = (size_b + page_b - 1) / page_b;
    const size_t sample_count = page_count < SAMPLE_MAX ? page_count : SAMPLE_MAX;
    void *pages[SAMPLE_MAX];
    int nodes[SAMPLE_MAX];
    for (size_t i = 0; i < sample_count; i++)
        pages[i] = (char *)(uintptr_t)memory + i * page_count / sample_count * page_b;
    // Without a list of targets the call moves nothing and reports where the pages are.
    if (syscall(SYS_move_pages, 0, sample_count, pages, NULL, nodes, 0) != 0)
        return -1;
    for (size_t i = 0; i < sample_count; i++) {
        if (nodes[i] < 0 || nodes[i] >= NODES_MAX) {
            errno = nodes[i] < 0 ? -nodes[i] : ERANGE;
            return -1;
        }
        counts[nodes[i]]++;
    }
    return 0;
}

// Returns whether the flags of a mapping are those of an array. An array has a flag for its kind of
// pages: advised huge, advised not huge, or reserved. Heap and stacks have no such flag.
static bool is_array(const char *flags)
{
    return strstr(flags, " hg") != NULL || strstr(flags, " nh") != NULL ||
           strstr(flags, " ht") != NULL;
}

long memory_huge_b(void)
{
    FILE *in = fopen("/proc/self/smaps", "r");
    char line[1024];
    long total_b = -1, mapping_b = 0, kib;
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        if (sscanf(line, "AnonHugePages: %ld kB", &kib) == 1 ||
            sscanf(line, "Private_Hugetlb: %ld kB", &kib) == 1)
            mapping_b += kib * 1024;
        if (strncmp(line, "VmFlags:", 8) != 0)
            continue;
        if (is_array(line))
            total_b = (total_b < 0 ? 0 : total_b) + mapping_b;
        mapping_b = 0;
    }
    if (in != NULL)
        fclose(in);
    return total_b;
}
