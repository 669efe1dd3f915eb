#include "CRoundtableShims.h"

#include <errno.h>
#include <time.h>

#if defined(__linux__)

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

int rt_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    struct timespec timeout = {
        .tv_sec = (time_t)(timeout_ns / 1000000000u),
        .tv_nsec = (long)(timeout_ns % 1000000000u),
    };
    // FUTEX_WAIT without FUTEX_PRIVATE_FLAG: the kernel identifies the futex by the file, so that it works across separate mappings.
    long result = syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0);
    return result == 0 ? 0 : errno;
}

int rt_futex_wake(const uint32_t *word, int count) {
    long result = syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
    return result >= 0 ? (int)result : -errno;
}

#elif defined(__APPLE__)

#include <os/os_sync_wait_on_address.h>

int rt_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    int result = os_sync_wait_on_address_with_timeout(
        (void *)word, expected, sizeof(*word), OS_SYNC_WAIT_ON_ADDRESS_SHARED, OS_CLOCK_MACH_ABSOLUTE_TIME,
        timeout_ns == 0 ? 1 : timeout_ns);
    if (result >= 0) return 0;
    // When memory is short, both errors end a wait early. The waiter reads the word again, and detects there that its page is gone.
    return errno == EFAULT || errno == ENOMEM ? EINTR : errno;
}

int rt_futex_wake(const uint32_t *word, int count) {
    int result = count == 1
        ? os_sync_wake_by_address_any((void *)word, sizeof(*word), OS_SYNC_WAKE_BY_ADDRESS_SHARED)
        : os_sync_wake_by_address_all((void *)word, sizeof(*word), OS_SYNC_WAKE_BY_ADDRESS_SHARED);
    return result >= 0 ? 1 : (errno == ENOENT ? 0 : -errno);
}

#else
#error "Roundtable knows Linux and Apple systems"
#endif
