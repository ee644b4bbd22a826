// The order in which hardware threads are used, computed from their places alone.
#include <stdlib.h>

#include "topology.h"

// Compares two lists of keys, the first key first.
static int compare_keys(const long *one, const long *other, int keys)
{
    for (int i = 0; i < keys; i++)
        if (one[i] != other[i])
            return one[i] < other[i] ? -1 : 1;
    return 0;
}

static int compare_compact(const void *a, const void *b)
{
    const struct place *p = a, *q = b;
    const long one[] = {p->sibling, p->package, p->cache, p->cpu};
    const long other[] = {q->sibling, q->package, q->cache, q->cpu};
    return compare_keys(one, other, 4);
}

static int compare_spread(const void *a, const void *b)
{
    const struct place *p = a, *q = b;
    const long one[] = {p->sibling, p->core_rank, p->cache_rank, p->package, p->cpu};
    const long other[] = {q->sibling, q->core_rank, q->cache_rank, q->package, q->cpu};
    return compare_keys(one, other, 5);
}

void topology_sort(struct place places[], int count, enum order order)
{
    qsort(places, (size_t)count, sizeof *places, compare_compact);
    for (int i = 0; i < count; i++) {
        struct place *const here = &places[i];
        const struct place *const before = i > 0 ? &places[i - 1] : NULL;
        const bool same_package = before != NULL && before->sibling == here->sibling &&
                                  before->package == here->package;
        const bool same_cache = same_package && before->cache == here->cache;
        here->core_rank = same_cache ? before->core_rank + 1 : 0;
        here->cache_rank = same_package ? before->cache_rank + !same_cache : 0;
    }
    if (order == ORDER_SPREAD)
        qsort(places, (size_t)count, sizeof *places, compare_spread);
}
