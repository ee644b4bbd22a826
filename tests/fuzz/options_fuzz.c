// Fuzzes membench's command line, guided by coverage, under the address and undefined-behaviour
// sanitizers: arguments that reach code that none before reached are kept and changed further.
//   options_fuzz LINES SEED REPORT
// Tries so many command lines, and writes to the file REPORT how many of them it kept. What membench
// prints is thrown away. A sanitizer that finds a fault ends the program (see options.py).
#define _GNU_SOURCE
#include <getopt.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

enum { MAP = 1 << 16, WORDS = 8, LETTERS = 64, KEPT = 4096 };

struct line {
    int words;
    char word[WORDS][LETTERS];
};

static const char *const TOKENS[] = {
    "triad", "copy", "nt_write", "--order", "spread", "all",
    "-n", "--cores", "--socket", "--cpu-node", "--cpus", "--free",
    "-m", "-s", "--pages", "--stores", "--isa", "-d", "-j", "--help", "--", "-", "",
    "0", "1", "-1", "0-3,8", "0-", "3-0", ",", "0-99999999999", "1e999", "nan", "inf", "-inf",
    "2147483648", "1e15B", "64MiB", "1e-9GiB", "0x1p10KiB", "huge", "streaming", "cached",
    "portable", "avx512", "transparent", "normal", "4096", "1023", "0,0,0", "0-4095,0-4095",
};
static unsigned char seen[MAP];
static bool fresh, counting;
static jmp_buf ended;
static struct line kept[KEPT];
static int kept_count;

void __sanitizer_cov_trace_pc(void);
void __real_exit(int status);
void __wrap_exit(int status);

__attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc(void)
{
    static uintptr_t before;
    const uintptr_t here = (uintptr_t)__builtin_return_address(0);
    unsigned char *const arc = &seen[(here ^ before << 1) % MAP];
    before = here;
    if (counting && *arc == 0) {
        *arc = 1;
        fresh = true;
    }
}

// The options end the program when they refuse a line; here the next one is tried.
void __wrap_exit(int status)
{
    if (!counting)
        __real_exit(status);
    longjmp(ended, status + 1);
}

static int below(int most) { return (int)(random() % most); }

static void change(struct line *line)
{
    const int at = below(WORDS);
    char *const word = line->word[at];
    switch (below(4)) {
    case 0: snprintf(word, LETTERS, "%s", TOKENS[below(sizeof TOKENS / sizeof *TOKENS)]); break;
    case 1: word[below((int)strlen(word) + 1)] = (char)below(256); break;
    case 2: line->words = below(WORDS + 1); break;
    default: memmove(word + 1, word, LETTERS - 2); word[0] = "0123456789-,.eB"[below(15)];
    }
    word[LETTERS - 1] = '\0';
    if (line->words <= at && below(2))
        line->words = at + 1;
}

static void read_options(struct line *line)
{
    static struct options options;
    // Copies of their exact length, so that a read beyond the end is found.
    char *arguments[WORDS + 2] = {strdup("membench")};
    for (int i = 0; i < line->words; i++)
        arguments[i + 1] = strdup(line->word[i]);
    char *given[WORDS + 2];
    memcpy(given, arguments, sizeof given); // getopt changes the order
    optind = 0;
    counting = true;
    if (setjmp(ended) == 0) {
        options_read(line->words + 1, given, &options);
        if (options.plan.cores < 1 || options.plan.task.array_b == 0 ||
            options.plan.task.kernel == NULL)
            abort();
    }
    counting = false;
    for (int i = 0; i <= WORDS; i++)
        free(arguments[i]);
}

int main(int argc, char **argv)
{
    if (argc != 4 || !freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
        return 2;
    const long wanted = atol(argv[1]);
    srandom((unsigned)atol(argv[2]));
    for (long tried = 0; tried < wanted; tried++) {
        struct line line = {0};
        if (kept_count > 0)
            line = kept[below(kept_count)];
        for (int changes = 1 + below(4); changes > 0; changes--)
            change(&line);
        fresh = false;
        read_options(&line);
        if (fresh && kept_count < KEPT)
            kept[kept_count++] = line;
    }
    FILE *const said = fopen(argv[3], "w");
    if (said == NULL)
        return 2;
    fprintf(said, "%ld command lines, %d kept\n", wanted, kept_count);
    fclose(said);
    return 0;
}
