// The bare futex that news are compared with: written here, so that nothing of Roundtable's is between.

#ifndef BENCHMARK_SHIMS_H
#define BENCHMARK_SHIMS_H

#include <stdint.h>

/// Sleeps while `*word == expected`, shared between processes. May return early.
void bench_futex_wait(const uint32_t *word, uint32_t expected);

/// Wakes all who wait.
void bench_futex_wake(const uint32_t *word);

/// Does nothing. A tool that counts instructions dumps its counts before it.
void bench_mark(void);

#endif
