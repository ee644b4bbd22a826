// Memory on a chosen NUMA node, and the kernel's word on where it is and in which pages.
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

enum pages { PAGES_NORMAL, PAGES_TRANSPARENT, PAGES_HUGE };
enum { NODES_MAX = 1024 };

// Anonymous memory, bound to `node` unless that is -1 (then each page lies near the core that
// touches it first). Nothing is touched. Returns NULL and sets errno on failure.
void *memory_map(size_t size_b, int node, enum pages pages);

// What memory of this size takes in pages of this kind, bytes.
size_t memory_of_pages_b(size_t size_b, enum pages pages);

// Adds to `counts[node]` how many of a sample of the (touched) memory's pages lie on each node.
// Returns 0, or -1 with errno where the kernel does not answer.
int memory_count(const void *memory, size_t size_b, long counts[NODES_MAX]);

// Bytes of the memory mapped here that lie in huge pages of either kind (/proc/self/smaps); -1 if
// the kernel does not say.
long memory_huge_b(void);

#endif
