// Dependent loads over a random cycle of all cache lines of some memory: each load's address is
// the value of the load before it, so that no two are in flight at once.
#ifndef CHAIN_H
#define CHAIN_H

#include <stdbool.h>
#include <stddef.h>

struct chain {
    // Where the walk stands.
    const void *at;
    size_t lines;
};

// Links the lines of `line_b` bytes in the memory to one cycle in random order, the same order in
// each run. Returns false if it does not come back to its start after exactly as many steps as
// there are lines.
bool chain_make(struct chain *chain, void *memory, size_t size_b, size_t line_b);

void chain_walk(struct chain *chain, long loads);

// Whether the walk stands where so many loads since the start lead.
bool chain_right(const struct chain *chain, long loads);

#endif
