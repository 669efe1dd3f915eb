// The declarations of <os/os_sync_wait_on_address.h> and <os/clock.h> that the shims use (macOS 14.4, iOS 17.4).

#pragma once
#include <availability.h>
#include <stddef.h>
#include <stdint.h>

typedef enum : uint32_t { OS_CLOCK_MACH_ABSOLUTE_TIME = 32 } os_clockid_t;
typedef enum : uint32_t { OS_SYNC_WAIT_ON_ADDRESS_NONE = 0, OS_SYNC_WAIT_ON_ADDRESS_SHARED = 1 } os_sync_wait_on_address_flags_t;
typedef enum : uint32_t { OS_SYNC_WAKE_BY_ADDRESS_NONE = 0, OS_SYNC_WAKE_BY_ADDRESS_SHARED = 1 } os_sync_wake_by_address_flags_t;

/// The number of waiters left, or -1 with errno: ETIMEDOUT, EINTR, ENOMEM, EFAULT (perhaps for a moment only), EINVAL.
int os_sync_wait_on_address_with_timeout(
    void *addr, uint64_t value, size_t size, os_sync_wait_on_address_flags_t flags, os_clockid_t clockid, uint64_t timeout_ns)
    RT_SINCE(14.4, 17.4, 10.4, 17.4);

/// 0, or -1 with errno: ENOENT when nobody waits.
int os_sync_wake_by_address_any(void *addr, size_t size, os_sync_wake_by_address_flags_t flags)
    RT_SINCE(14.4, 17.4, 10.4, 17.4);
int os_sync_wake_by_address_all(void *addr, size_t size, os_sync_wake_by_address_flags_t flags)
    RT_SINCE(14.4, 17.4, 10.4, 17.4);
