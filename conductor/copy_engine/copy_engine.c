// copy_engine: a GPU writes or reads pinned memory of its host, see docs/injectors.md.
//
// The copy engines of the device move the bytes over PCIe; the processor only posts copies, and
// sleeps until they are complete. Copies go in batches. A batch ends with a mark that the device
// writes behind the data, so that host memory itself says which batches have arrived.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "../program.h"

// Batches that are under way; the most copies of one, and its bytes at full rate.
enum { SLOTS = 4, COPIES_MAX = 256, BATCH_B = 16 << 20 };
// The least bytes of a copy that is split for a rate.
enum { UNSPLIT_B = 64 << 10 };
// Time between two rows; the most that a limited writer catches up with, seconds.
static const double ROW_S = 0.25, LATE_S = 0.25;
// Below this the clock is watched until a batch is due; more is slept.
static const double WATCHED_S = 1e-4;

static const char HELP[] =
    "copy_engine [options]: a GPU's copy engine writes or reads memory of its host\n"
    "\n"
    "  -g, --get           read the host's memory (write it)\n"
    "  -b, --both          write one half of the memory and read the other, as many bytes\n"
    "  -s, --size B        bytes of a copy (1048576)\n"
    "  -f, --footprint B   bytes of memory that the copies pass through (those of one copy)\n"
    "  -r, --rate B/S      bytes per second (as fast as possible)\n"
    "  -e, --every S       below full rate, seconds from one batch of copies to the next (0.001)\n"
    "  -m, --node M        NUMA node that the memory is bound to (near the process)\n"
    "  -d, --duration S    seconds (until it is stopped)\n"
    "  -l, --list          print the GPUs, of which the first is used (CUDA_VISIBLE_DEVICES)\n";

// The driver's interface, as far as it is used (NVIDIA, CUDA Driver API).
typedef int result;
typedef int gpu;
typedef void *handle;
typedef unsigned long long address;
enum { SUCCESS = 0, BLOCKING_CONTEXT = 4, BLOCKING_EVENT = 1, OWN_STREAM = 1 };

static struct {
    result (*init)(unsigned flags);
    result (*error_string)(result error, const char **text);
    result (*count)(int *gpus);
    result (*get)(gpu *one, int index);
    result (*name)(char *text, int size_b, gpu one);
    result (*pci)(char *text, int size_b, gpu one);
    result (*flags)(gpu one, unsigned flags);
    result (*retain)(handle *context, gpu one);
    result (*set_current)(handle context);
    result (*allocate)(address *memory, size_t size_b);
    result (*pin)(void *memory, size_t size_b, unsigned flags);
    result (*stream)(handle *stream, unsigned flags);
    result (*event)(handle *event, unsigned flags);
    result (*record)(handle event, handle stream);
    result (*wait)(handle event);
    result (*follow)(handle stream, handle event, unsigned flags);
    result (*elapsed)(float *length_ms, handle from, handle to);
    result (*fill)(address to, unsigned value, size_t words, handle stream);
    result (*to_host)(void *to, address from, size_t size_b, handle stream);
    result (*to_device)(address to, const void *from, size_t size_b, handle stream);
} driver;

static const struct {
    const char *name;
    void *function;
} FUNCTIONS[] = {
    {"cuInit", &driver.init},
    {"cuGetErrorString", &driver.error_string},
    {"cuDeviceGetCount", &driver.count},
    {"cuDeviceGet", &driver.get},
    {"cuDeviceGetName", &driver.name},
    {"cuDeviceGetPCIBusId", &driver.pci},
    {"cuDevicePrimaryCtxSetFlags_v2", &driver.flags},
    {"cuDevicePrimaryCtxRetain", &driver.retain},
    {"cuCtxSetCurrent", &driver.set_current},
    {"cuMemAlloc_v2", &driver.allocate},
    {"cuMemHostRegister_v2", &driver.pin},
    {"cuStreamCreate", &driver.stream},
    {"cuEventCreate", &driver.event},
    {"cuEventRecord", &driver.record},
    {"cuEventSynchronize", &driver.wait},
    {"cuStreamWaitEvent", &driver.follow},
    {"cuEventElapsedTime", &driver.elapsed},
    {"cuMemsetD32Async", &driver.fill},
    {"cuMemcpyDtoHAsync_v2", &driver.to_host},
    {"cuMemcpyHtoDAsync_v2", &driver.to_device},
};

struct options {
    bool put, get, list;
    size_t message_b, footprint_b;
    double rate_b_s, every_s, duration_s;
    int node;
    // Bytes of one copy, copies of a batch, and bytes that a direction's copies pass through.
    size_t copy_b, copies, window_b;
};

// Memory and streams of the copies; writes and reads have a stream each, so that they overlap. The
// mark lies behind the data; `marked` is where the device takes it from.
struct copies {
    char *written, *read;
    volatile uint32_t *mark;
    address source, sink, marked;
    handle writing, reading, all_read;
};

static void quit(int status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("copy_engine: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(status);
}

// How messages are cut into copies and batches.
static void size_batches(struct options *o)
{
    o->copy_b = o->message_b;
    if (o->rate_b_s > 0) {
        const size_t batch_b = (size_t)(o->rate_b_s * o->every_s);
        if (batch_b < o->copy_b && o->copy_b > UNSPLIT_B)
            o->copy_b = batch_b < UNSPLIT_B ? UNSPLIT_B : batch_b;
        o->copies = batch_b / o->copy_b;
    } else {
        o->copies = BATCH_B / o->copy_b;
        o->copies = o->copies > COPIES_MAX ? COPIES_MAX : o->copies;
    }
    o->copies = o->copies < 1 ? 1 : o->copies;
    o->window_b = o->footprint_b > o->message_b ? o->footprint_b : o->message_b;
}

static void read_options(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {
        {"get", no_argument, NULL, 'g'},            {"both", no_argument, NULL, 'b'},
        {"size", required_argument, NULL, 's'},     {"footprint", required_argument, NULL, 'f'},
        {"rate", required_argument, NULL, 'r'},     {"every", required_argument, NULL, 'e'},
        {"node", required_argument, NULL, 'm'},     {"duration", required_argument, NULL, 'd'},
        {"list", no_argument, NULL, 'l'},           {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    *o = (struct options){.put = true, .message_b = 1 << 20, .every_s = 1e-3, .node = -1};
    for (int option; (option = getopt_long(argc, argv, "gbs:f:r:e:m:d:lh", known, NULL)) != -1;)
        switch (option) {
        case 'g': o->get = true, o->put = false; break;
        case 'b': o->get = o->put = true; break;
        case 's': o->message_b = (size_t)whole("--size", optarg, 1, 1e12); break;
        case 'f': o->footprint_b = (size_t)whole("--footprint", optarg, 1, 1e12); break;
        case 'r': o->rate_b_s = number("--rate", optarg, 1, 1e15); break;
        case 'e': o->every_s = number("--every", optarg, 1e-4, 1e3); break;
        case 'm': o->node = (int)whole("--node", optarg, 0, NODES_MAX - 1); break;
        case 'd': o->duration_s = number("--duration", optarg, 0.01, 1e6); break;
        case 'l': o->list = true; break;
        case 'h': fputs(HELP, stdout); exit(0);
        default: exit(2);
        }
    if (optind != argc)
        quit(2, "%s: not an option, see --help", argv[optind]);
    size_batches(o);
}

static void must(result error, const char *what)
{
    const char *text = NULL;
    if (error == SUCCESS)
        return;
    if (driver.error_string == NULL || driver.error_string(error, &text) != SUCCESS || text == NULL)
        text = "an unknown error";
    quit(3, "%s: %s (%d)", what, text, error);
}

static void load_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL)
        quit(3, "no NVIDIA driver: %s", dlerror());
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        void *function = dlsym(library, FUNCTIONS[i].name);
        if (function == NULL)
            quit(3, "this NVIDIA driver is too old: it has no %s", FUNCTIONS[i].name);
        memcpy(FUNCTIONS[i].function, &function, sizeof function);
    }
    must(driver.init(0), "the NVIDIA driver");
}

static int count_gpus(void)
{
    int gpus = 0;
    must(driver.count(&gpus), "count of GPUs");
    if (gpus == 0)
        quit(3, "no GPU is visible");
    return gpus;
}

static void list_gpus(void)
{
    const int gpus = count_gpus();
    for (int i = 0; i < gpus; i++) {
        gpu one;
        char name[128] = "", pci[32] = "";
        must(driver.get(&one, i), "a GPU");
        must(driver.name(name, sizeof name, one), "name of a GPU");
        must(driver.pci(pci, sizeof pci, one), "PCI address of a GPU");
        printf("%d %s %s\n", i, pci, name);
    }
}

// Memory of the host that the GPU can reach: on one NUMA node if that is named.
static char *pinned(size_t size_b, int node)
{
    char *memory = mmap(NULL, size_b, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        quit(3, "%zu bytes of memory: %m", size_b);
    if (node >= 0) {
        unsigned long nodes[NODE_WORDS];
        // The kernel uses one bit less than the number that it is given.
        if (syscall(SYS_mbind, memory, size_b, POLICY_BIND, only(node, nodes), NODES_MAX + 1UL,
                    0) != 0)
            quit(3, "--node %d: %m", node);
    }
    memset(memory, 1, size_b);
    must(driver.pin(memory, size_b, 0), "pinning memory");
    return memory;
}

static address on_device(size_t size_b)
{
    address memory;
    must(driver.allocate(&memory, size_b), "memory of the GPU");
    return memory;
}

static handle new_event(void)
{
    handle event;
    must(driver.event(&event, BLOCKING_EVENT), "an event");
    return event;
}

static struct copies prepare(const struct options *o)
{
    const size_t aligned_b = (o->window_b + sizeof(uint32_t) - 1) / sizeof(uint32_t) *
                             sizeof(uint32_t);
    gpu one;
    handle context;
    count_gpus();
    must(driver.get(&one, 0), "a GPU");
    driver.flags(one, BLOCKING_CONTEXT); // refused if another has set them: events sleep as well
    must(driver.retain(&context, one), "a context on the GPU");
    must(driver.set_current(context), "the context");
    struct copies c = {.written = pinned(aligned_b + sizeof(uint32_t), o->node)};
    c.mark = (volatile uint32_t *)(void *)(c.written + aligned_b);
    *c.mark = 0;
    c.marked = on_device(sizeof(uint32_t));
    if (o->put)
        c.source = on_device(o->copy_b);
    if (o->get) {
        c.read = o->put ? pinned(o->window_b, o->node) : c.written;
        c.sink = on_device(o->copy_b);
    }
    must(driver.stream(&c.writing, OWN_STREAM), "a stream");
    must(driver.stream(&c.reading, OWN_STREAM), "a stream");
    c.all_read = new_event();
    return c;
}

// Waits until the next batch is due; one that is late goes at once.
static void wait_for_turn(double *due_s)
{
    const double at_s = now_s();
    if (*due_s < at_s - LATE_S)
        *due_s = at_s - LATE_S;
    if (*due_s - at_s > WATCHED_S)
        sleep_s(*due_s - at_s - WATCHED_S);
    while (now_s() < *due_s)
        ;
}

// Posts the copies of a batch, from a place in the memory on, and its mark; where the next begins.
// `complete` happens when both directions are done.
static size_t post(const struct options *o, const struct copies *c, size_t at, uint32_t batch,
                   handle complete)
{
    for (size_t i = 0; i < o->copies; i++) {
        if (at + o->copy_b > o->window_b)
            at = 0;
        if (o->put)
            must(driver.to_host(c->written + at, c->source, o->copy_b, c->writing), "a copy");
        if (o->get)
            must(driver.to_device(c->sink, c->read + at, o->copy_b, c->reading), "a copy");
        at += o->copy_b;
    }
    if (o->put) {
        must(driver.fill(c->marked, batch, 1, c->writing), "a mark");
        must(driver.to_host((void *)(uintptr_t)c->mark, c->marked, sizeof batch, c->writing),
             "a mark");
    }
    if (o->get) {
        must(driver.record(c->all_read, c->reading), "an event");
        must(driver.follow(c->writing, c->all_read, 0), "a stream");
    }
    must(driver.record(complete, c->writing), "an event");
    return at;
}

// How many batches have arrived, as the memory says, of which the device says `batch` are complete.
static uint64_t arrived(const struct copies *c, uint64_t batch)
{
    const int32_t ahead = (int32_t)(*c->mark - (uint32_t)batch);
    if (ahead < 0)
        quit(3, "%ju batches are complete, but the mark in memory is %d behind", (uintmax_t)batch,
             -ahead);
    return batch + (uint64_t)ahead;
}

static void print_row(handle from, handle to, uint64_t row_b)
{
    float length_ms = 0;
    must(driver.elapsed(&length_ms, from, to), "time between two events");
    printf("row %.6f s %ju B\n", 1e-3 * (double)length_ms, (uintmax_t)row_b);
}

static void copy(const struct options *o, const struct copies *c)
{
    const uint64_t batch_b = o->copies * o->copy_b, under_way = o->rate_b_s > 0 ? 1 : SLOTS;
    handle complete[SLOTS], row_began = new_event();
    for (int i = 0; i < SLOTS; i++)
        complete[i] = new_event();
    const double began_s = now_s();
    double due_s = began_s, row_s = began_s;
    uint64_t posted = 0, done = 0, row_b = 0;
    size_t at = 0;
    must(driver.record(row_began, c->writing), "an event");
    while (o->duration_s == 0 || now_s() - began_s < o->duration_s) {
        for (; posted - done < under_way; posted++) {
            if (o->rate_b_s > 0) {
                wait_for_turn(&due_s);
                due_s += (double)batch_b / o->rate_b_s;
            }
            at = post(o, c, at, (uint32_t)posted + 1, complete[posted % SLOTS]);
        }
        handle *event = &complete[done++ % SLOTS];
        must(driver.wait(*event), "a batch of copies");
        row_b += batch_b;
        const uint64_t batches = o->put ? arrived(c, done) : 0;
        if (now_s() - row_s < ROW_S)
            continue;
        print_row(row_began, *event, row_b);
        if (o->put)
            printf("arrived %ju B\n", (uintmax_t)(batches * batch_b));
        row_s = now_s();
        row_b = 0;
        handle used = row_began;
        row_began = *event; // the next row begins where this one ends
        *event = used;
    }
    for (; done < posted; done++)
        must(driver.wait(complete[done % SLOTS]), "a batch of copies");
    printf("copied %ju B\n", (uintmax_t)(done * batch_b));
}

int main(int argc, char **argv)
{
    struct options o;
    read_options(argc, argv, &o);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // the agent that started it may be killed
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    load_driver();
    if (o.list) {
        list_gpus();
        return 0;
    }
    const struct copies c = prepare(&o);
    copy(&o, &c);
    return 0;
}
