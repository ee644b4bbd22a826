// The options of the command line.
#ifndef OPTIONS_H
#define OPTIONS_H

#include "measure.h"

struct options {
    struct plan plan;
    // File for the result as JSON; - is standard output, and NULL means that no file is written.
    const char *json;
};

// Fills the options. Ends the program after --help, or with a message if an option is invalid.
void options_read(int argc, char **argv, struct options *options);

#endif
