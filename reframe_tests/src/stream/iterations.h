/* Included before the official stream.c, which is compiled unmodified. STREAM's number of
   iterations, NTIMES, is read from the environment at the start, since a run may have to be
   lengthened. */
#include <stdlib.h>

#define MIN_ITERATIONS 2 /* STREAM does not count the first one */

static int further_iterations;

__attribute__((constructor)) static void read_iterations(void) {
    const char *text = getenv("STREAM_ITERATIONS");
    int requested = text ? atoi(text) : 0;
    if (requested < MIN_ITERATIONS) exit(2);
    further_iterations = requested - MIN_ITERATIONS;
}

/* stream.c also tests NTIMES with #if, where the preprocessor takes the name of a variable as 0. */
#define NTIMES (MIN_ITERATIONS + further_iterations)
