#include "CBenchmarkShims.h"

__attribute__((noinline)) void bench_mark(void) { __asm__ volatile("" ::: "memory"); }
