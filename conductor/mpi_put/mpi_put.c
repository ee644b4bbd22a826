// mpi_put: one-sided writes or reads of another rank's memory, or messages that this rank receives
// (docs/injectors.md).
//
// One of two ranks is the target, the other one is the origin. The target calls no function of MPI
// while the origin puts or gets. It sleeps, and reads marks in its memory. The origin writes the
// number of complete bytes into these marks. If no mark arrives, MPI emulates one-sided calls by
// messages that the target must receive. Then the target polls MPI, and reports that it does.
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Messages are split into pieces of at most PIECE_B, so that the marks also move within a message.
// Below full rate, messages above UNSPLIT_B are split into smaller pieces, one per EVEN_S seconds,
// but not below UNSPLIT_B. At full rate at most BATCH messages or pieces, and at most BATCH_B, are
// posted together, but at least one. Below full rate each is posted alone, and so is each message
// that the target receives.
enum { PIECE_B = 8 << 20, UNSPLIT_B = 64 << 10, BATCH = 32, BATCH_B = 2 << 20 };
static const double EVEN_S = 1e-3;
// Bytes of a cache line; bytes read of a line of a file in /proc.
enum { CACHE_LINE_B = 64, TEXT_LINE_B = 4096 };
// Time between two rows; how late a piece may be and still be made up for; seconds.
static const double ROW_S = 0.25, LATE_S = 0.25;
// How long the target waits for the first mark, and for each later mark, before it polls; seconds.
static const double FIRST_MARK_S = 2, NEXT_MARK_S = 10;
// A longer time between two readings of the marks does not count, since both ranks were suspended.
static const double SUSPENDED_S = 1;
// A shorter wait for a piece watches the clock, a longer one sleeps first; seconds.
static const double WATCHED_S = 2e-4;

// Numbers of NUMA nodes are below NODES_MAX. The policy is MPOL_BIND of linux/mempolicy.h, a header
// that not every machine has.
enum { NODES_MAX = 1024, POLICY_BIND = 2, WORD_BITS = 8 * sizeof(unsigned long) };

// The marks, which the origin writes behind the data in the target's window.
enum { BEGUN, BYTES, ENDED, MARK_COUNT };

static const char HELP[] =
    "mpi_put [options]: one-sided writes or reads between two ranks of MPI, or messages\n"
    "(defaults in parentheses)\n"
    "\n"
    "  -g, --get           read the target's memory (write it)\n"
    "  -b, --both          write one half of it, and read as many bytes of the other\n"
    "      --receive       the target receives messages, two-sided (it sleeps)\n"
    "  -s, --size B        bytes of a message (65536)\n"
    "  -f, --footprint B   bytes of memory that messages pass through (a batch of them)\n"
    "  -r, --rate B/S      bytes per second, evenly spaced (as fast as possible)\n"
    "  -m, --node M        NUMA node that the memory of both ranks is bound to (near each rank)\n"
    "  -t, --target HOST   the rank on this host is the target (rank 0)\n"
    "  -d, --duration S    seconds (until it is stopped)\n"
    "      --launcher      print how its MPI starts programs\n";

struct options {
    bool put, get, receive;
    size_t message_b, footprint_b;
    double rate_b_s, duration_s;
    int node;
    const char *target;
    // Bytes of a piece, and of the pieces that are posted together.
    size_t piece_b, posted_b;
    // The window: bytes of data; offset of the data to read, which follow the data to write if both
    // are done; offset of the marks.
    size_t data_b, read_at, marks_at;
};

__attribute__((noreturn, format(printf, 2, 3))) static void quit(int status, const char *format,
                                                                ...)
{
    int is_initialized;
    va_list values;
    va_start(values, format);
    fputs("mpi_put: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    MPI_Initialized(&is_initialized);
    if (is_initialized)
        MPI_Abort(MPI_COMM_WORLD, status);
    exit(status);
}

static double number(const char *option, const char *text, double least, double most)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= least && value <= most))
        quit(2, "%s %s: a number from %g to %g is needed", option, text, least, most);
    return value;
}

static double whole_number(const char *option, const char *text, double least, double most)
{
    const double value = number(option, text, least, most);
    if (value != (double)(long long)value)
        quit(2, "%s %s: a whole number is needed", option, text);
    return value;
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

// How many messages or pieces of a size are posted together.
static size_t batch_of(size_t size_b)
{
    const size_t count = BATCH_B / size_b;
    if (count < 1)
        return 1;
    return count < BATCH ? count : BATCH;
}

// Sets the sizes of pieces and of the window, which follow from the options.
static void set_sizes(struct options *o)
{
    o->data_b = o->footprint_b > 0 ? o->footprint_b : batch_of(o->message_b) * o->message_b;
    if (o->receive)
        o->data_b -= o->data_b % o->message_b; // whole messages
    o->piece_b = o->receive || o->message_b < PIECE_B ? o->message_b : PIECE_B;
    if (o->rate_b_s > 0 && !o->receive && o->piece_b > UNSPLIT_B) {
        const double even_b = o->rate_b_s * EVEN_S;
        if (even_b < UNSPLIT_B)
            o->piece_b = UNSPLIT_B;
        else if (even_b < (double)o->piece_b)
            o->piece_b = (size_t)even_b / CACHE_LINE_B * CACHE_LINE_B;
    }
    const bool posts_alone = o->rate_b_s > 0 || o->receive;
    o->posted_b = (posts_alone ? 1 : batch_of(o->piece_b)) * o->piece_b;
    if (o->posted_b > o->data_b)
        o->posted_b = o->data_b;
    o->read_at = o->put && o->get ? o->data_b : 0;
    o->marks_at = (o->read_at + o->data_b + sizeof(uint64_t) - 1) / sizeof(uint64_t) *
                  sizeof(uint64_t);
}

static void read_options(int argc, char **argv, struct options *o)
{
    enum { PRINT_LAUNCHER = 256, RECEIVE };
    static const struct option known[] = {
        {"get", no_argument, NULL, 'g'},        {"both", no_argument, NULL, 'b'},
        {"size", required_argument, NULL, 's'}, {"rate", required_argument, NULL, 'r'},
        {"footprint", required_argument, NULL, 'f'},
        {"node", required_argument, NULL, 'm'},
        {"target", required_argument, NULL, 't'},
        {"receive", no_argument, NULL, RECEIVE},
        {"duration", required_argument, NULL, 'd'},
        {"launcher", no_argument, NULL, PRINT_LAUNCHER},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
    };
    *o = (struct options){.put = true, .message_b = 65536, .node = -1};
    for (int option; (option = getopt_long(argc, argv, "gbs:f:r:m:t:d:h", known, NULL)) != -1;)
        switch (option) {
        case 'g': o->get = true, o->put = false; break;
        case 'b': o->get = o->put = true; break;
        case 's': o->message_b = (size_t)whole_number("--size", optarg, 1, 1e12); break;
        case 'f': o->footprint_b = (size_t)whole_number("--footprint", optarg, 1, 1e12); break;
        case 'r': o->rate_b_s = number("--rate", optarg, 1, 1e15); break;
        case 'm': o->node = (int)whole_number("--node", optarg, 0, NODES_MAX - 1); break;
        case 't': o->target = optarg; break;
        case RECEIVE: o->receive = true; break;
        case 'd': o->duration_s = number("--duration", optarg, 0.01, 1e6); break;
        case PRINT_LAUNCHER: puts(LAUNCHER); exit(0);
        case 'h': fputs(HELP, stdout); exit(0);
        default: exit(2);
        }
    if (optind != argc)
        quit(2, "%s: not an option, see --help", argv[optind]);
    if (o->footprint_b > 0 && o->footprint_b < o->message_b)
        quit(2, "--footprint %zu: at least one message, %zu, is needed", o->footprint_b,
             o->message_b);
    if (o->receive && (o->get || o->message_b < sizeof(uint64_t) || o->message_b > INT_MAX))
        quit(2, "--receive: messages of 8 to %d bytes in one direction are needed", INT_MAX);
    set_sizes(o);
}

// Processor time of all threads of this rank, seconds.
static double processor_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

// The rank that runs on the named host; without a name, rank 0.
static int target_rank(const char *host)
{
    char hostname[256] = "";
    gethostname(hostname, sizeof hostname - 1);
    const char *slurm_name = getenv("SLURMD_NODENAME");
    const char *name = slurm_name != NULL ? slurm_name : hostname;
    int is_target = host != NULL && strcmp(name, host) == 0, are_targets[2];
    MPI_Allgather(&is_target, 1, MPI_INT, are_targets, 1, MPI_INT, MPI_COMM_WORLD);
    const int ranks = are_targets[0] + are_targets[1];
    if (host != NULL && ranks != 1)
        quit(3, "--target %s: %d ranks run there, not one", host, ranks);
    return are_targets[1];
}

// Binds all memory that is allocated from now on, including the memory of MPI.
static void bind_memory(int node)
{
    unsigned long nodes[NODES_MAX / WORD_BITS] = {0};
    nodes[(unsigned)node / WORD_BITS] = 1UL << (unsigned)node % WORD_BITS;
    // The kernel reads one bit less than the number that it is given.
    if (syscall(SYS_set_mempolicy, POLICY_BIND, nodes, NODES_MAX + 1UL) != 0)
        quit(3, "--node %d: %m", node);
}

// Handles SIGBUS, which the kernel sends if /dev/shm has no room for memory that was allocated.
static void report_no_room(int signum)
{
    static const char TEXT[] = "mpi_put: the shared memory of this host (/dev/shm) is full:"
                               " more of it, or smaller messages, are needed\n";
    const ssize_t written = write(STDERR_FILENO, TEXT, sizeof TEXT - 1);
    _exit(written < 0 ? signum : 3);
}

// Makes a window. MPI allocates its memory, so that two ranks of a host can share it.
static char *make_window(size_t size_b, MPI_Win *window)
{
    char *memory;
    MPI_Win_allocate((MPI_Aint)size_b, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, window);
    signal(SIGBUS, report_no_room);
    memset(memory, 0, size_b);
    return memory;
}

// A shared mapping of this rank: its addresses, and the device (two numbers) and inode of its file.
struct mapping {
    unsigned long long from, until, file[3];
};

// Reads the next shared mapping of /proc/self/maps. Returns false after the last one.
static bool read_mapping(FILE *maps, struct mapping *mapping)
{
    char line[TEXT_LINE_B], flags[5];
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%llx-%llx %4s %*x %llx:%llx %llu", &mapping->from, &mapping->until, flags,
                   &mapping->file[0], &mapping->file[1], &mapping->file[2]) == 6 &&
            flags[3] == 's')
            return true;
    return false;
}

// Stores the device and inode of the file that this rank maps, shared, at an address. Returns false
// if there is none.
static bool find_file(const void *address, unsigned long long file[3])
{
    FILE *maps = fopen("/proc/self/maps", "r");
    struct mapping mapping;
    bool is_mapped = false;
    while (!is_mapped && read_mapping(maps, &mapping))
        is_mapped = mapping.from <= (uintptr_t)address && (uintptr_t)address < mapping.until;
    if (is_mapped)
        memcpy(file, mapping.file, sizeof mapping.file);
    if (maps != NULL)
        fclose(maps);
    return is_mapped;
}

// Whether this rank maps a file, shared.
static bool maps_file(const unsigned long long file[3])
{
    FILE *maps = fopen("/proc/self/maps", "r");
    struct mapping mapping;
    bool is_mapped = false;
    while (!is_mapped && read_mapping(maps, &mapping))
        is_mapped = memcmp(mapping.file, file, sizeof mapping.file) == 0;
    if (maps != NULL)
        fclose(maps);
    return is_mapped;
}

// Whether the origin maps the target's window, so that the origin's processor writes into it.
static bool shares_memory(bool is_target, int target, const void *memory)
{
    MPI_Comm node;
    int ranks, shared;
    unsigned long long file[3] = {0};
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &ranks);
    MPI_Comm_free(&node);
    shared = !is_target || find_file(memory, file);
    MPI_Bcast(file, 3, MPI_UNSIGNED_LONG_LONG, target, MPI_COMM_WORLD);
    shared = shared && ranks == 2 && (is_target || maps_file(file));
    MPI_Allreduce(MPI_IN_PLACE, &shared, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return shared;
}

// Puts named shared memory into the agent's folder, if there is one, since this folder is removed
// even if both ranks are killed. The two functions below replace the functions of the C library for
// MPICH, which shares memory only between ranks of one host.
static void shared_path(const char *name, char path[PATH_MAX])
{
    const char *folder = getenv("NIMC_SHARED_MEMORY");
    if (folder == NULL || access(folder, W_OK) != 0) // a folder of another host
        folder = "/dev/shm";
    snprintf(path, PATH_MAX, "%s/%s", folder, name + (*name == '/'));
}

int shm_open(const char *name, int flags, mode_t mode)
{
    char path[PATH_MAX];
    shared_path(name, path);
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
}

int shm_unlink(const char *name)
{
    char path[PATH_MAX];
    shared_path(name, path);
    return unlink(path);
}

// Removes the names of MPICH's shared memory once all ranks have mapped it. MPICH would do so only
// at its end, which a killed writer does not reach.
static void remove_names(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[TEXT_LINE_B], *path;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if ((path = strchr(line, '/')) != NULL && strstr(path, "/mpich_shm_") != NULL) {
            path[strcspn(path, " \n")] = '\0';
            unlink(path);
        }
    if (maps != NULL)
        fclose(maps);
}

// Watches the marks until the origin ends, and prints the bytes that have arrived.
static void watch_marks(const volatile uint64_t *marks, bool shared)
{
    MPI_Barrier(MPI_COMM_WORLD); // after this, the origin has locked the window
    const double began_s = now_s(), processor_before_s = processor_s();
    double reported_s = began_s, read_s = began_s, unchanged_s = 0;
    bool polls = false, ended = false;
    uint64_t last_sum = 0;
    while (!ended) {
        int is_pending;
        if (polls)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_pending,
                       MPI_STATUS_IGNORE);
        else
            sleep_s(ROW_S / 5);
        ended = marks[ENDED] != 0;
        const double at_s = now_s();
        const uint64_t arrived_b = marks[BYTES], sum = arrived_b + marks[BEGUN];
        const double passed_s = at_s - read_s < SUSPENDED_S ? at_s - read_s : 0;
        unchanged_s = sum != last_sum ? 0 : unchanged_s + passed_s;
        last_sum = sum;
        read_s = at_s;
        if (unchanged_s > (sum == 0 ? FIRST_MARK_S : NEXT_MARK_S))
            polls = true;
        if (at_s - reported_s < ROW_S && !ended)
            continue;
        printf("arrived %ju B by %s memory, target %s, %.6f s of its processor\n",
               (uintmax_t)arrived_b, shared ? "shared" : "unshared",
               polls ? "polls" : "sleeps", processor_s() - processor_before_s);
        reported_s = at_s;
    }
}

// Spaces pieces evenly. `written_s` is the time that all pieces so far take at the requested rate.
struct limiter {
    double began_s, written_s;
};

// Waits until the next piece is due. A late piece is sent at once, to keep the mean rate.
static void wait_for_turn(const struct options *o, struct limiter *limiter, size_t piece_b)
{
    const double at_s = now_s();
    double due_s = limiter->began_s + limiter->written_s;
    if (due_s < at_s - LATE_S) {
        limiter->began_s += at_s - LATE_S - due_s;
        due_s = at_s - LATE_S;
    }
    if (due_s - at_s > WATCHED_S)
        sleep_s(due_s - at_s - WATCHED_S);
    while (now_s() < due_s)
        ;
    limiter->written_s += (double)piece_b / o->rate_b_s;
}

static void write_marks(const struct options *o, const uint64_t *marks, int target, MPI_Win window)
{
    const MPI_Aint at = (MPI_Aint)o->marks_at;
    MPI_Put(marks, MARK_COUNT, MPI_UINT64_T, target, at, MARK_COUNT, MPI_UINT64_T, window);
}

// Puts or gets the bytes from an offset on, or both, piece by piece.
static void post(const struct options *o, char *data, size_t from, size_t size_b, int target,
                 MPI_Win window)
{
    for (size_t at = from; at < from + size_b; at += o->piece_b) {
        const size_t left_b = from + size_b - at;
        const int count = (int)(left_b < o->piece_b ? left_b : o->piece_b);
        const MPI_Aint read_at = (MPI_Aint)(o->read_at + at);
        if (o->get)
            MPI_Get(data + read_at, count, MPI_BYTE, target, read_at, count, MPI_BYTE, window);
        if (o->put)
            MPI_Put(data + at, count, MPI_BYTE, target, (MPI_Aint)at, count, MPI_BYTE, window);
    }
}

// Sends bytes as one message. The message ends with the number of bytes sent before it, which the
// target checks.
static void send_message(char *data, size_t size_b, uint64_t before_b, int target)
{
    if (size_b >= sizeof before_b)
        memcpy(data + size_b - sizeof before_b, &before_b, sizeof before_b);
    MPI_Send(data, (int)size_b, MPI_BYTE, target, 0, MPI_COMM_WORLD);
}

// Receives messages until an empty one, and counts their bytes.
static void receive_messages(const struct options *o, char *data, int origin)
{
    const double processor_before_s = processor_s();
    double reported_s = now_s();
    uint64_t arrived_b = 0;
    int received_b = 1;
    while (received_b > 0) {
        char *message = data + arrived_b % o->data_b;
        MPI_Status status;
        MPI_Recv(message, (int)o->message_b, MPI_BYTE, origin, 0, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &received_b);
        uint64_t before_b = arrived_b;
        if (received_b > 0)
            memcpy(&before_b, message + (size_t)received_b - sizeof before_b, sizeof before_b);
        if (before_b != arrived_b)
            quit(3, "a message is missing: %ju B were sent before this one, but %ju B arrived",
                 (uintmax_t)before_b, (uintmax_t)arrived_b);
        arrived_b += (uint64_t)received_b;
        if (now_s() - reported_s < ROW_S && received_b > 0)
            continue;
        printf("arrived %ju B by unshared memory, target receives, %.6f s of its processor\n",
               (uintmax_t)arrived_b, processor_s() - processor_before_s);
        reported_s = now_s();
    }
}

// Locks the target's window, and waits until the target reads the marks.
static void open_window(const struct options *o, uint64_t *marks, int target, MPI_Win window)
{
    // With MPI_MODE_NOCHECK, Open MPI 4.1 writes nothing over tcp. The target's processor may grant
    // the lock, but should take no part in later writes.
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
    write_marks(o, marks, target, window);
    MPI_Win_flush(target, window);
    MPI_Barrier(MPI_COMM_WORLD);
    sleep_s(ROW_S); // the target may still be in the barrier, where it would receive
    marks[BEGUN] = 1;
    write_marks(o, marks, target, window);
    MPI_Win_flush(target, window);
}

// Writes, reads or sends until the duration is over, and prints rows.
static void run_origin(const struct options *o, char *data, int target, MPI_Win window)
{
    uint64_t marks[MARK_COUNT] = {0};
    if (!o->receive)
        open_window(o, marks, target, window);
    const double began_s = now_s();
    double at_s = began_s, row_end_s = began_s;
    uint64_t row_end_b = 0; // all bytes at the end of the last row
    struct limiter limiter = {.began_s = began_s};
    size_t from = 0;
    while (o->duration_s == 0 || at_s - began_s < o->duration_s) {
        const size_t left_b = o->data_b - from, size_b = left_b < o->posted_b ? left_b : o->posted_b;
        if (o->rate_b_s > 0)
            wait_for_turn(o, &limiter, size_b);
        if (o->receive) {
            send_message(data + from, size_b, marks[BYTES], target);
        } else {
            // Marks count only bytes of earlier flushes: calls between two flushes are unordered.
            write_marks(o, marks, target, window);
            post(o, data, from, size_b, target, window);
            MPI_Win_flush(target, window);
        }
        marks[BYTES] += size_b;
        from = (from + size_b) % o->data_b;
        at_s = now_s();
        if (at_s - row_end_s >= ROW_S) {
            const uint64_t row_b = marks[BYTES] - row_end_b;
            printf("row %.6f s %ju B\n", at_s - row_end_s, (uintmax_t)row_b);
            row_end_s = at_s;
            row_end_b = marks[BYTES];
        }
    }
    printf("sent %ju B\n", (uintmax_t)marks[BYTES]);
    if (o->receive) {
        send_message(data, 0, 0, target);
        return;
    }
    marks[ENDED] = 1;
    write_marks(o, marks, target, window);
    MPI_Win_unlock(target, window);
}

int main(int argc, char **argv)
{
    struct options o;
    read_options(argc, argv, &o);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // its launcher may be killed
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    MPI_Init(&argc, &argv);
    int ranks, rank, version_length, *model, has_model;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (ranks != 2)
        quit(3, "%d ranks found, 2 are needed: is the launcher that of its MPI?", ranks);
    const int target = target_rank(o.target);
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_library_version(version, &version_length);
    if (rank == target)
        printf("library: %.*s\n", (int)strcspn(version, "\n"), version);
    if (o.node >= 0)
        bind_memory(o.node);
    MPI_Win window;
    char *memory = make_window(o.marks_at + MARK_COUNT * sizeof(uint64_t), &window);
    MPI_Win_get_attr(window, MPI_WIN_MODEL, &model, &has_model);
    if (!has_model || *model != MPI_WIN_UNIFIED)
        quit(3, "this MPI keeps a second copy of a window, so no mark can be read in its memory");
    const bool shared = shares_memory(rank == target, target, memory);
    remove_names();
    if (rank == target && o.receive)
        receive_messages(&o, memory, !target);
    else if (rank == target)
        watch_marks((const volatile uint64_t *)(memory + o.marks_at), shared);
    else
        run_origin(&o, memory, target, window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
