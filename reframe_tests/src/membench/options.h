// What the command line asks for.
#ifndef OPTIONS_H
#define OPTIONS_H

#include "kernels.h"
#include "memory.h"
#include "topology.h"

struct options {
    const struct kernel *kernel;
    const struct isa *isa;
    enum stores stores;
    int cores, cpus[CPUS_MAX];
    // Threads go where the system puts them; `cpus` only says how many there may be.
    bool free;
    size_t array_b;
    int node;
    enum pages pages;
    double duration_s;
    const char *json;
};

// Fills the options, or prints why not (or the help) and ends the program.
void options_read(int argc, char **argv, struct options *options);

#endif
