// Which processors a machine has, in which order they are used, and how large their caches are.
#ifndef TOPOLOGY_H
#define TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

enum { CPUS_MAX = 4096 };

// The socket of the first processor that this process may use, or all sockets.
enum { SOCKET_FIRST = -1, SOCKET_ALL = -2 };

// Compact: the cores of a last-level cache, then those of the next one, socket after socket.
// Spread: each next core on the next socket, and there on the next last-level cache.
enum order { ORDER_COMPACT, ORDER_SPREAD };

// Where a hardware thread is. `sibling` counts those of the same core before it.
struct place {
    int cpu;
    long package, cache, sibling;
    // Set by topology_sort: the order of the cache in its socket, and of the core in its cache.
    long cache_rank, core_rank;
};

// Sorts; hardware threads of a core beyond the first come after all cores.
void topology_sort(struct place places[], int count, enum order order);

// Fills `cpus` with the hardware threads of a socket that this process may use. Of a NUMA node
// other than -1, only its processors are taken, whatever the socket. Returns how many there are;
// `cores` of them are first ones of their core.
int topology_cores(int socket, int node, enum order order, int cpus[CPUS_MAX], int *cores);

// Fills `cpus` from a list such as 0-3,8. Returns how many, or -1 where the text is no list.
int topology_list(const char *text, int cpus[CPUS_MAX]);

// Whether a NUMA node has memory; true where the kernel does not say.
bool topology_has_memory(int node);

// Size of the largest cache of a processor, bytes; 32 MiB if unknown.
size_t topology_llc_b(int cpu);

#endif
