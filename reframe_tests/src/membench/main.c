// membench: memory bandwidth of some cores at once, see docs/memory.md#membench.
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "report.h"

int main(int argc, char **argv)
{
    static struct options options;
    static struct result result;
    options_read(argc, argv, &options);
    const bool json_only = options.json != NULL && strcmp(options.json, "-") == 0;
    // With --json -, standard output is one JSON document.
    FILE *text = json_only ? stderr : stdout;
    report_start(text, &options.plan);
    const char *fault = measure(&options.plan, &result);
    if (fault != NULL) {
        fprintf(stderr, "membench: %s\n", fault);
        free(result.cores);
        return 3;
    }
    report_result(text, &options.plan, &result);
    FILE *json = NULL;
    if (json_only)
        json = stdout;
    else if (options.json != NULL)
        json = fopen(options.json, "w");
    if (json != NULL)
        report_json(json, &options.plan, &result);
    const bool written = options.json == NULL || (json != NULL && fflush(json) == 0);
    if (!written)
        fprintf(stderr, "membench: %s cannot be written\n", options.json);
    if (json != NULL && !json_only)
        fclose(json);
    free(result.cores);
    return written ? 0 : 3;
}
