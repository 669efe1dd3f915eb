#include "CRoundtableShims.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { STOP_SIGNALS = 3, CONTINUE = STOP_SIGNALS, SIGNALS };
static const int numbers[SIGNALS] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT};

// Written before the handlers are put, and not after.
static struct sigaction previous[SIGNALS];
static int wake_descriptor = -1;
static pid_t owner;

static _Atomic(uint64_t) sequence, last_stop, last_continue, stop_time;
static atomic_int last_signal;

static int index_of(int signal_number) {
    for (int i = 0; i < SIGNALS; i++) {
        if (numbers[i] == signal_number) return i;
    }
    return -1;
}

// The clock of `MonotonicClock`.
static uint64_t now_ns(void) {
    struct timespec time;
#if defined(__APPLE__)
    clock_gettime(CLOCK_UPTIME_RAW, &time);
#else
    clock_gettime(CLOCK_MONOTONIC, &time);
#endif
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void on_signal(int signal_number, siginfo_t *info, void *context) {
    int error = errno;
    int index = index_of(signal_number);
    if (getpid() != owner) {
        // A child after fork: it has no thread that would act. Raised again, the signal comes when this handler returns.
        sigaction(signal_number, &previous[index], NULL);
        raise(signal_number);
        errno = error;
        return;
    }
    uint64_t now = atomic_fetch_add(&sequence, 1) + 1;
    if (index == CONTINUE) {
        atomic_store(&last_continue, now);
    } else {
        atomic_store(&last_signal, signal_number);
        atomic_store(&stop_time, now_ns());
        atomic_store(&last_stop, now);
    }
    // A full pipe wakes as well.
    ssize_t written = write(wake_descriptor, "", 1);
    (void)written;
    if (index == CONTINUE && previous[index].sa_handler != SIG_DFL && previous[index].sa_handler != SIG_IGN) {
        if (previous[index].sa_flags & SA_SIGINFO) {
            previous[index].sa_sigaction(signal_number, info, context);
        } else {
            previous[index].sa_handler(signal_number);
        }
    }
    errno = error;
}

static int handle(int index) {
    struct sigaction action = {0};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    // In the order in which they come: none interrupts another's handler.
    for (int i = 0; i < SIGNALS; i++) sigaddset(&action.sa_mask, numbers[i]);
    return sigaction(numbers[index], &action, NULL) == 0 ? 0 : errno;
}

int rt_stop_signals_handle(int descriptor) {
    wake_descriptor = descriptor;
    owner = getpid();
    int handled = 0;
    // SIGCONT first: from the first stop on, somebody notices that it is over.
    for (int i = SIGNALS - 1; i >= 0; i--) {
        if (sigaction(numbers[i], NULL, &previous[i]) != 0) return -errno;
        if (i != CONTINUE && previous[i].sa_handler == SIG_IGN) continue;
        int error = handle(i);
        if (error != 0) return -error;
        if (i != CONTINUE) handled++;
    }
    return handled;
}

struct rt_stop_signals rt_stop_signals_latest(void) {
    struct rt_stop_signals latest;
    latest.stop = atomic_load(&last_stop);
    latest.resume = atomic_load(&last_continue);
    latest.number = atomic_load(&last_signal);
    latest.time = atomic_load(&stop_time);
    return latest;
}

void rt_stop(int signal_number, uint64_t stop) {
    int index = index_of(signal_number);
    if (index < 0 || index == CONTINUE) return;
    sigset_t one, both, before, pending;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    both = one;
    sigaddset(&both, SIGCONT);
    pthread_sigmask(SIG_BLOCK, &both, &before);
    sigaction(signal_number, &previous[index], NULL);
    // Pending, since it is blocked. A SIGCONT that comes from here on discards it; one that came before is looked for.
    raise(signal_number);
    sigemptyset(&pending);
    sigpending(&pending);
    int is_over = atomic_load(&last_continue) > stop || sigismember(&pending, SIGCONT) == 1;
    if (is_over) kill(getpid(), SIGCONT);
    // Here the process stops.
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    handle(index);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
