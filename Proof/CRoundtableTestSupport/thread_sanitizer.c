// Tells Thread Sanitizer what it cannot see of Swift's `Mutex` and continuations on Linux.
//
// Why, `Mutex`: the uncontended paths of `Mutex` are inlined in our code, which is instrumented. The contended ones (`_MutexHandle._lockSlow`,
// `_unlockSlow`) are in the standard library, which is not, and they get the lock from the kernel. Without this file, each wait for a
// mutex is reported as a race on the state that the mutex guards.
//
// Why, continuations: a task that is resumed before it awaits continues in `swift_continuation_await`, on its own thread. The runtime tells
// Thread Sanitizer of the resumption, and in this case not of its receipt. Without this file, what the resuming thread has made is reported
// as a race with what the task does with it, about once in a run of all tests. A checked continuation awaits inside of the runtime's library,
// which does not call the function here. So the library uses unsafe ones where they hand over what another thread has made: each is
// resumed at one place.
//
// Both can go when the toolchain's libraries tell Thread Sanitizer themselves.
//
// The functions here have the names of those of the standard library. The executable's own symbols come first, so the standard library's
// functions are called through these.

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && defined(__linux__)

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>

// The interface of Thread Sanitizer's runtime, which has no header for it.
void __tsan_acquire(void *address);
void __tsan_release(void *address);

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

typedef SWIFT void (*lock_function)(uint32_t thread, SELF void *mutex);
typedef SWIFT void (*unlock_function)(SELF void *mutex);

static void *original(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) __builtin_trap();
    return function;
}

SWIFT void rt_tsan_lock_slow(uint32_t thread, SELF void *mutex) __asm__(LOCK);
SWIFT void rt_tsan_unlock_slow(SELF void *mutex) __asm__(UNLOCK);

SWIFT void rt_tsan_lock_slow(uint32_t thread, SELF void *mutex) {
    static lock_function function;
    lock_function lock = __atomic_load_n(&function, __ATOMIC_RELAXED);
    if (!lock) {
        lock = (lock_function)original(LOCK);
        __atomic_store_n(&function, lock, __ATOMIC_RELAXED);
    }
    lock(thread, mutex);
    __tsan_acquire(mutex);
}

SWIFT void rt_tsan_unlock_slow(SELF void *mutex) {
    static unlock_function function;
    unlock_function unlock = __atomic_load_n(&function, __ATOMIC_RELAXED);
    if (!unlock) {
        unlock = (unlock_function)original(UNLOCK);
        __atomic_store_n(&function, unlock, __ATOMIC_RELAXED);
    }
    __tsan_release(mutex);
    unlock(mutex);
}

// MARK: Continuations

#define ASYNC __attribute__((swiftasynccall))
#define UNSEEN __attribute__((no_sanitize("thread")))

// The beginning of an asynchronous function's context, which is part of Swift's ABI.
struct context {
    struct context *parent;
    void *resume;
};

typedef ASYNC void (*await_function)(struct context *context);
typedef ASYNC void (*resume_function)(__attribute__((swift_async_context)) struct context *context);

void *swift_task_getCurrent(void);

// Where contexts continue, by address. Nothing is removed, because a context that is resumed by another thread does not come by here. An
// address that is used again gets another entry's value. Thread Sanitizer does not see the atomics: they would order all tasks.
// A run of all tests has some hundred thousand addresses.
enum { INDEX_BITS = 22, CONTEXTS = 1 << INDEX_BITS, PROBES = 256 };
static struct {
    struct context *context;
    void *resume;
} contexts[CONTEXTS];

UNSEEN static int find(struct context *context) {
    uint64_t hash = ((uintptr_t)context >> 4) * 0x9E3779B97F4A7C15u >> (64 - INDEX_BITS);
    for (int probe = 0; probe < PROBES; probe++) {
        int index = (hash + probe) % CONTEXTS;
        struct context *found = __atomic_load_n(&contexts[index].context, __ATOMIC_ACQUIRE);
        if (!found) {
            __atomic_compare_exchange_n(
                &contexts[index].context, &found, context, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
            if (!found) return index;
        }
        if (found == context) return index;
    }
    // The table is full: without an entry, reports of races would mean nothing.
    __builtin_trap();
}

UNSEEN ASYNC static void rt_tsan_continue(__attribute__((swift_async_context)) struct context *context) {
    resume_function resume = __atomic_load_n(&contexts[find(context)].resume, __ATOMIC_RELAXED);
    context->resume = resume;
    __tsan_acquire(swift_task_getCurrent());
    __attribute__((musttail)) return resume(context);
}

UNSEEN ASYNC void swift_continuation_await(struct context *context) {
    static await_function function;
    await_function await = __atomic_load_n(&function, __ATOMIC_RELAXED);
    if (!await) {
        await = (await_function)original("swift_continuation_await");
        __atomic_store_n(&function, await, __ATOMIC_RELAXED);
    }
    int index = find(context);
    if (context->resume != (void *)rt_tsan_continue) {
        __atomic_store_n(&contexts[index].resume, context->resume, __ATOMIC_RELAXED);
        context->resume = (void *)rt_tsan_continue;
    }
    __attribute__((musttail)) return await(context);
}

#endif
#endif
