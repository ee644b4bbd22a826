// The processors of a machine, the order in which they are used, and the size of their caches.
#ifndef TOPOLOGY_H
#define TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

enum { CPUS_MAX = 4096 };

// Values of `socket`: the socket of the first processor that this process may use, or all sockets.
enum { SOCKET_FIRST = -1, SOCKET_ALL = -2 };

// Compact: all cores of a last-level cache, then those of the next cache, socket after socket.
// Spread: each next core is on the next socket, and within it on the next last-level cache.
enum order { ORDER_COMPACT, ORDER_SPREAD };

// A hardware thread and its place in the machine. `sibling` is its index among the threads of its
// core.
struct hw_thread {
    int cpu;
    long package, cache, sibling;
    // Set by topology_sort: the index of the cache in its socket, and of the core in its cache.
    long cache_rank, core_rank;
};

// Sorts hardware threads. The first threads of all cores come first, then all second threads.
void topology_sort(struct hw_thread threads[], int count, enum order order);

// Fills `cpus` with the hardware threads of a socket that this process may use. If `node` is not
// -1, they are instead the threads of this NUMA node, on any socket. Returns the number of threads.
// `cores` becomes the number of cores.
int topology_cores(int socket, int node, enum order order, int cpus[CPUS_MAX], int *cores);

// Fills `cpus` from a list such as 0-3,8. Returns their number, or -1 if the text is no list.
int topology_list(const char *text, int cpus[CPUS_MAX]);

// Returns whether a NUMA node has memory; true if the kernel does not say.
bool topology_has_memory(int node);

// Returns the size of the largest cache of a processor, bytes; 32 MiB if unknown.
size_t topology_llc_b(int cpu);

#endif
