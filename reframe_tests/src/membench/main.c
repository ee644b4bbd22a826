// membench: memory bandwidth of some cores at once, see docs/memory.md#membench.
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "report.h"

int main(int argc, char **argv)
{
    static struct options o;
    static struct result r;
    options_read(argc, argv, &o);
    const bool json_only = o.json != NULL && strcmp(o.json, "-") == 0;
    // Standard output is one JSON document where that was asked for.
    FILE *talk = json_only ? stderr : stdout;
    report_start(talk, &o.plan);
    const char *fault = measure(&o.plan, &r);
    if (fault != NULL) {
        fprintf(stderr, "membench: %s\n", fault);
        free(r.cores);
        return 3;
    }
    report_result(talk, &o.plan, &r);
    FILE *json = json_only ? stdout : o.json != NULL ? fopen(o.json, "w") : NULL;
    if (json != NULL)
        report_json(json, &o.plan, &r);
    const bool written = o.json == NULL || (json != NULL && fflush(json) == 0);
    if (!written)
        fprintf(stderr, "membench: %s cannot be written\n", o.json);
    if (json != NULL && !json_only)
        fclose(json);
    free(r.cores);
    return written ? 0 : 3;
}
