// Chooses the instruction set at run time.
#include <string.h>

#include "kernels.h"

static const struct isa *const BEST_FIRST[] = {
#ifdef __x86_64__
    &isa_avx512,
    &isa_avx2,
    &isa_sse2,
#endif
#ifdef __aarch64__
    &isa_neon,
#endif
    &isa_portable,
};

const struct isa *isa_choose(const char *name)
{
    for (size_t i = 0; i < sizeof BEST_FIRST / sizeof BEST_FIRST[0]; i++) {
        const struct isa *isa = BEST_FIRST[i];
        if (isa->supported() && (name == NULL || strcmp(name, isa->name) == 0))
            return isa;
    }
    return NULL;
}
