// Plain C for any processor. The compiler may vectorise it, and stores go through the caches.
#include "kernels.h"

#define WIDTH 1
#define VEC double
#define TARGET
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define STREAM STORE
#define SET(x) (x)
#define ADD(x, y) ((x) + (y))
#define MUL(x, y) ((x) * (y))
#define FENCE() ((void)0)
#define STREAMS false
#define ISA portable
#define SUPPORTED true
#include "kernels.inc"
