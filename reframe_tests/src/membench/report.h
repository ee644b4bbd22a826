// What membench prints.
#ifndef REPORT_H
#define REPORT_H

#include <stdio.h>

#include "measure.h"

void report_start(FILE *out, const struct plan *plan);
void report_result(FILE *out, const struct plan *plan, const struct result *result);
void report_json(FILE *out, const struct plan *plan, const struct result *result);

#endif
