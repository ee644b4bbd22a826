#include "chain.h"

#include <stdint.h>

// The head of a cache line; the rest of it is not used.
struct line {
    struct line *next;
    // Steps from the start of the cycle.
    size_t rank;
};

static const size_t UNRANKED = SIZE_MAX;

// Splitmix64 (Steele, Lea and Flood, 2014).
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static struct line *line(char *memory, size_t i, size_t line_b)
{
    return (struct line *)(void *)(memory + i * line_b);
}

bool chain_make(struct chain *chain, void *memory, size_t size_b, size_t line_b)
{
    const size_t lines = size_b / line_b;
    uint64_t state = 1;
    for (size_t i = 0; i < lines; i++)
        *line(memory, i, line_b) = (struct line){line(memory, i, line_b), UNRANKED};
    // Sattolo's shuffle: the permutations that are a single cycle, each with the same probability.
    for (size_t i = lines; i-- > 1;) {
        struct line *const one = line(memory, i, line_b);
        struct line *const other = line(memory, draw(&state) % i, line_b);
        struct line *const next = one->next;
        one->next = other->next;
        other->next = next;
    }
    struct line *at = memory;
    for (size_t rank = 0; rank < lines && at->rank == UNRANKED; rank++) {
        at->rank = rank;
        *chain = (struct chain){at, rank + 1};
        at = at->next;
    }
    const bool whole = chain->lines == lines && at == memory;
    chain->at = memory;
    return whole;
}

void chain_walk(struct chain *chain, long loads)
{
    const struct line *at = chain->at;
    for (long i = 0; i < loads; i++)
        at = at->next;
    chain->at = at;
}

bool chain_right(const struct chain *chain, long loads)
{
    return ((const struct line *)chain->at)->rank == (size_t)loads % chain->lines;
}
