/* Included before the official stream.c, which is compiled as it is: its number of iterations, NTIMES,
   is read from the environment when it starts, since a run may have to be longer than planned. */
#include <stdlib.h>

#define LEAST 2 /* STREAM leaves out the first */

static int iterations_beyond_least;

__attribute__((constructor)) static void read_iterations(void) {
    const char *text = getenv("STREAM_ITERATIONS");
    int asked = text ? atoi(text) : 0;
    if (asked < LEAST) exit(2);
    iterations_beyond_least = asked - LEAST;
}

/* stream.c checks it with #if, where a variable is 0. */
#define NTIMES (LEAST + iterations_beyond_least)
