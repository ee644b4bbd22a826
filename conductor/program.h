// What the writers' programs share: values of options, masks of NUMA nodes, and time. The program says how it quits.
#ifndef NIMC_PROGRAM_H
#define NIMC_PROGRAM_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

// NUMA nodes are below the first; the policy is from linux/mempolicy.h, which not every machine has.
enum { NODES_MAX = 1024, POLICY_BIND = 2, WORD_BITS = 8 * sizeof(unsigned long) };
enum { NODE_WORDS = NODES_MAX / WORD_BITS };

__attribute__((noreturn, format(printf, 2, 3))) static void quit(int status, const char *format,
                                                                ...);

static double number(const char *option, const char *text, double least, double most)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= least && value <= most))
        quit(2, "%s %s: a number from %g to %g is needed", option, text, least, most);
    return value;
}

static double whole(const char *option, const char *text, double least, double most)
{
    const double value = number(option, text, least, most);
    if (value != (double)(long long)value)
        quit(2, "%s %s: a whole number is needed", option, text);
    return value;
}

// The mask of one NUMA node.
static unsigned long *only(int node, unsigned long nodes[NODE_WORDS])
{
    memset(nodes, 0, NODE_WORDS * sizeof *nodes);
    nodes[(unsigned)node / WORD_BITS] = 1UL << (unsigned)node % WORD_BITS;
    return nodes;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sleep_s(double length_s)
{
    const time_t whole_s = (time_t)length_s;
    nanosleep(&(struct timespec){whole_s, (long)(1e9 * (length_s - (double)whole_s))}, NULL);
}

#endif
