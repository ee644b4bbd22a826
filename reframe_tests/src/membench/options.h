// What the command line asks for.
#ifndef OPTIONS_H
#define OPTIONS_H

#include "measure.h"

struct options {
    struct plan plan;
    const char *json;
};

// Fills the options, or prints why not (or the help) and ends the program.
void options_read(int argc, char **argv, struct options *options);

#endif
