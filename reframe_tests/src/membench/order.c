// The order in which hardware threads are used. It depends only on their places in the machine.
#include <stdlib.h>

#include "topology.h"

// Compares two lists of keys. The first key that differs decides.
static int compare_keys(const long *one, const long *other, int keys)
{
    for (int i = 0; i < keys; i++)
        if (one[i] != other[i])
            return one[i] < other[i] ? -1 : 1;
    return 0;
}

static int compare_compact(const void *a, const void *b)
{
    const struct hw_thread *p = a, *q = b;
    const long one[] = {p->sibling, p->package, p->cache, p->cpu};
    const long other[] = {q->sibling, q->package, q->cache, q->cpu};
    return compare_keys(one, other, 4);
}

static int compare_spread(const void *a, const void *b)
{
    const struct hw_thread *p = a, *q = b;
    const long one[] = {p->sibling, p->core_rank, p->cache_rank, p->package, p->cpu};
    const long other[] = {q->sibling, q->core_rank, q->cache_rank, q->package, q->cpu};
    return compare_keys(one, other, 5);
}

void topology_sort(struct hw_thread threads[], int count, enum order order)
{
    qsort(threads, (size_t)count, sizeof *threads, compare_compact);
    for (int i = 0; i < count; i++) {
        struct hw_thread *const thread = &threads[i];
        const struct hw_thread *const previous = i > 0 ? &threads[i - 1] : NULL;
        const bool same_package = previous != NULL && previous->sibling == thread->sibling &&
                                  previous->package == thread->package;
        const bool same_cache = same_package && previous->cache == thread->cache;
        thread->core_rank = same_cache ? previous->core_rank + 1 : 0;
        thread->cache_rank = same_package ? previous->cache_rank + !same_cache : 0;
    }
    if (order == ORDER_SPREAD)
        qsort(threads, (size_t)count, sizeof *threads, compare_spread);
}
