// Stands for NVIDIA's driver library in tests: copies are done at once by the processor.
//
// FAKE_CUDA=none has no GPU, =old lacks nothing but starts with an error, =lost leaves the marks
// out, =slow takes a millisecond for each copy.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int is(const char *fault)
{
    const char *asked = getenv("FAKE_CUDA");
    return asked != NULL && strcmp(asked, fault) == 0;
}

static double *clock_of(void *event)
{
    return event;
}

int cuInit(unsigned flags) { return flags != 0 || is("old") ? 803 : 0; }
int cuGetErrorString(int error, const char **text)
{
    *text = error == 803 ? "system has unsupported display driver / cuda driver combination"
                         : "invalid argument";
    return 0;
}
int cuDeviceGetCount(int *gpus) { return *gpus = is("none") ? 0 : 2, 0; }
int cuDeviceGet(int *one, int index) { return *one = index, 0; }
int cuDeviceGetName(char *text, int size_b, int one)
{
    return strncpy(text, one == 0 ? "Fake GPU" : "Other GPU", (size_t)size_b - 1), 0;
}
int cuDeviceGetPCIBusId(char *text, int size_b, int one)
{
    return strncpy(text, one == 0 ? "0000:01:00.0" : "0000:02:00.0", (size_t)size_b - 1), 0;
}
int cuDevicePrimaryCtxSetFlags_v2(int one, unsigned flags) { return one == 0 && flags == 4 ? 0 : 1; }
int cuDevicePrimaryCtxRetain(void **context, int one) { return *context = NULL, one; }
int cuCtxSetCurrent(void *context) { return context != NULL; }
int cuMemAlloc_v2(unsigned long long *memory, size_t size_b)
{
    return *memory = (unsigned long long)(size_t)calloc(1, size_b), *memory == 0;
}
int cuMemHostRegister_v2(void *memory, size_t size_b, unsigned flags)
{
    return memory == NULL || size_b == 0 || flags != 0;
}
int cuStreamCreate(void **stream, unsigned flags) { return *stream = NULL, flags != 1; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return stream != NULL || event == NULL || flags != 0;
}
int cuEventCreate(void **event, unsigned flags)
{
    return *event = calloc(1, sizeof(double)), flags != 1;
}
int cuEventRecord(void *event, void *stream)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *clock_of(event) = 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
    return stream != NULL;
}
int cuEventSynchronize(void *event) { return event == NULL; }
int cuEventElapsedTime(float *length_ms, void *from, void *to)
{
    return *length_ms = (float)(*clock_of(to) - *clock_of(from)), 0;
}
int cuMemsetD32Async(unsigned long long to, unsigned value, size_t words, void *stream)
{
    for (size_t i = 0; i < words; i++)
        ((unsigned *)(size_t)to)[i] = value;
    return stream != NULL;
}
static void take_time(void)
{
    if (is("slow"))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t size_b, void *stream)
{
    take_time();
    if (!is("lost") || size_b != sizeof(unsigned))
        memcpy(to, (void *)(size_t)from, size_b);
    return stream != NULL;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t size_b, void *stream)
{
    take_time();
    return memcpy((void *)(size_t)to, from, size_b), stream != NULL;
}
