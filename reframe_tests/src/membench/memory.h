// Memory on a chosen NUMA node, and the kernel's word on where it is.
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

enum pages { PAGES_NORMAL, PAGES_TRANSPARENT, PAGES_HUGE };
enum { NODES_MAX = 1024 };

// Anonymous memory, bound to `node` unless that is -1 (then each page lies near the core that
// touches it first). Nothing is touched. Returns NULL and sets errno on failure.
void *memory_map(size_t size_b, int node, enum pages pages);

// Adds to `counts[node]` how many of a sample of the (touched) memory's pages lie on each node.
// Returns 0, or -1 with errno where the kernel does not answer.
int memory_count(const void *memory, size_t size_b, long counts[NODES_MAX]);

#endif
