#include "CBenchmarkShims.h"

#include <limits.h>

#if defined(__linux__)

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void bench_futex_wait(const uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT, expected, NULL, NULL, 0);
}

void bench_futex_wake(const uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

#elif defined(__APPLE__)

#include <os/os_sync_wait_on_address.h>

void bench_futex_wait(const uint32_t *word, uint32_t expected) {
    os_sync_wait_on_address((void *)word, expected, sizeof(*word), OS_SYNC_WAIT_ON_ADDRESS_SHARED);
}

void bench_futex_wake(const uint32_t *word) {
    os_sync_wake_by_address_all((void *)word, sizeof(*word), OS_SYNC_WAKE_BY_ADDRESS_SHARED);
}

#endif
