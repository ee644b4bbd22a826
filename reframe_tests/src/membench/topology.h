// Which processors a socket has, and how large its last-level cache is.
#ifndef TOPOLOGY_H
#define TOPOLOGY_H

#include <stddef.h>

enum { CPUS_MAX = 4096 };

// Fills `cpus` with one hardware thread for each core of the socket that this process may use, in
// the order of the system's numbers. Socket -1 is that of the first such processor. Of a NUMA node
// other than -1, only its processors are taken, whatever the socket. Returns how many there are.
int topology_cores(int socket, int node, int cpus[CPUS_MAX]);

// Fills `cpus` from a list such as 0-3,8. Returns how many, or -1 where the text is no list.
int topology_list(const char *text, int cpus[CPUS_MAX]);

// Size of the largest cache of a processor, bytes; 32 MiB if unknown.
size_t topology_llc_b(int cpu);

#endif
