#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// From linux/mempolicy.h, which not every machine has: allocate from the given nodes or not at all.
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

void *memory_map(size_t size_b, int node, enum pages pages)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (pages == PAGES_HUGE ? MAP_HUGETLB : 0);
    if (pages != PAGES_NORMAL)
        size_b = (size_b + HUGE_PAGE_B - 1) / HUGE_PAGE_B * HUGE_PAGE_B;
    void *memory = mmap(NULL, size_b, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    // Said either way, so that a machine's default does not decide.
    const int advice = pages == PAGES_TRANSPARENT ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
    const int advised = pages == PAGES_HUGE ? 0 : madvise(memory, size_b, advice);
    if ((advised != 0 && pages == PAGES_TRANSPARENT) ||
        (node >= 0 && bind_to(memory, size_b, node) != 0)) {
        const int error = errno;
        munmap(memory, size_b);
        errno = error;
        return NULL;
    }
    return memory;
}

int memory_count(const void *memory, size_t size_b, long counts[NODES_MAX])
{
    const size_t page_b = (size_t)sysconf(_SC_PAGESIZE);
    const size_t all = (size_b + page_b - 1) / page_b;
    const size_t count = all < SAMPLE_MAX ? all : SAMPLE_MAX;
    void *pages[SAMPLE_MAX];
    int nodes[SAMPLE_MAX];
    for (size_t i = 0; i < count; i++)
        pages[i] = (char *)(uintptr_t)memory + i * all / count * page_b;
    // Without a list of targets the call moves nothing and reports where the pages are.
    if (syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0) != 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (nodes[i] < 0 || nodes[i] >= NODES_MAX) {
            errno = nodes[i] < 0 ? -nodes[i] : ERANGE;
            return -1;
        }
        counts[nodes[i]]++;
    }
    return 0;
}
