// Stands for NVIDIA's management library in tests: the GPU sends 3 MB/s and receives 1 MB/s.
//
// FAKE_NVML=refused does not allow it, =lost ends after some calls.
#include <stdlib.h>
#include <string.h>

static int is(const char *fault)
{
    const char *asked = getenv("FAKE_NVML");
    return asked != NULL && strcmp(asked, fault) == 0;
}

int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(int error)
{
    return error == 4 ? "Insufficient Permissions" : error == 6 ? "Not Found" : "GPU is lost";
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **gpu)
{
    static int one;
    *gpu = &one;
    return strcmp(pci, "0000:01:00.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetPcieThroughput(void *gpu, int way, unsigned *units)
{
    static int calls;
    *units = way == 0 ? 3000 : 1000;
    return gpu == NULL ? 6 : is("refused") ? 4 : is("lost") && ++calls > 6 ? 15 : 0;
}
