// Maps memory on a chosen NUMA node. Asks the kernel on which nodes and in which pages memory is.
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

enum pages { PAGES_NORMAL, PAGES_TRANSPARENT, PAGES_HUGE };
enum { NODES_MAX = 1024 };

// Maps anonymous memory, bound to `node`. With -1, each page lies near the core that touches it
// first. This function touches no page. Returns NULL and sets errno on failure.
void *memory_map(size_t size_b, int node, enum pages pages);

// Returns the size rounded up to whole pages of this kind, bytes.
size_t memory_of_pages_b(size_t size_b, enum pages pages);

// Takes a sample of the memory's pages, which must have been touched. Adds the number of sampled
// pages on each node to `counts[node]`. Returns 0, or -1 with errno if the kernel does not answer.
int memory_count_pages(const void *memory, size_t size_b, long counts[NODES_MAX]);

// Returns the bytes of the memory mapped here that are in huge pages of either kind
// (/proc/self/smaps); -1 if the kernel does not report them.
long memory_huge_b(void);

#endif
