#include "CRoundtableShims.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { STOP_SIGNALS = 3, CONTINUE = STOP_SIGNALS, SIGNALS };
static const int numbers[SIGNALS] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT};

// These variables are written before the handlers are installed, and not afterwards.
static struct sigaction previous[SIGNALS];
static int is_handled[SIGNALS];
static int wake_descriptor = -1;
static pid_t owner;
static pthread_t watcher;

static _Atomic(uint64_t) stop_time;

// Reads the clock of `MonotonicClock`.
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
    int index = 0;
    while (numbers[index] != signal_number) index++;
    if (getpid() != owner) {
        // This is a child after fork, which has no watcher thread. The raised signal is delivered when this handler returns.
        sigaction(signal_number, &previous[index], NULL);
        raise(signal_number);
        errno = error;
        return;
    }
    if (index != CONTINUE) {
        // This comes first. The watcher blocks the signal, which stays pending there until SIGCONT makes the system discard it.
        pthread_kill(watcher, signal_number);
        atomic_store(&stop_time, now_ns());
    }
    // If the pipe is full, the write fails, but the watcher wakes as well.
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
    for (int i = 0; i < SIGNALS; i++) sigaddset(&action.sa_mask, numbers[i]);
    return sigaction(numbers[index], &action, NULL) == 0 ? 0 : errno;
}

// This thread sleeps and runs the handlers. It is needed because all other threads may block these signals: a process inherits the mask of
// the thread that spawned it.
static void *receive(void *unused) {
    (void)unused;
    sigset_t others;
    sigfillset(&others);
    for (int i = 0; i < SIGNALS; i++) sigdelset(&others, numbers[i]);
    pthread_sigmask(SIG_SETMASK, &others, NULL);
    for (;;) pause();
}

static int start_receiver(void) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, receive, NULL);
    return error != 0 ? error : pthread_detach(thread);
}

static sigset_t stop_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < STOP_SIGNALS; i++) sigaddset(&set, numbers[i]);
    return set;
}

// Restores the previous handlers after a failure, because no thread would act on the signals.
static int give_back(int error) {
    for (int i = 0; i < SIGNALS; i++) {
        if (!is_handled[i]) continue;
        is_handled[i] = 0;
        sigaction(numbers[i], &previous[i], NULL);
    }
    return -error;
}

int rt_stop_signals_handle(int descriptor) {
    wake_descriptor = descriptor;
    owner = getpid();
    watcher = pthread_self();
    sigset_t set = stop_signals();
    int error = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (error != 0) return -error;
    int count = 0;
    // The handler of SIGCONT is installed first, so that the end of every stop is noticed.
    for (int i = SIGNALS - 1; i >= 0; i--) {
        if (sigaction(numbers[i], NULL, &previous[i]) != 0) return give_back(errno);
        if (i != CONTINUE && previous[i].sa_handler == SIG_IGN) continue;
        error = handle(i);
        if (error != 0) return give_back(error);
        is_handled[i] = 1;
        if (i != CONTINUE) count++;
    }
    // The receiver starts after the handlers are in place, because a stop signal may be pending already.
    error = count > 0 ? start_receiver() : 0;
    return error != 0 ? give_back(error) : count;
}

int rt_stop_signals_are_pending(void) {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    for (int i = 0; i < STOP_SIGNALS; i++) {
        if (is_handled[i] && sigismember(&pending, numbers[i]) == 1) return 1;
    }
    return 0;
}

uint64_t rt_stop_signals_take_time(void) { return atomic_exchange(&stop_time, 0); }

void rt_stop(void) {
    sigset_t set = stop_signals();
    for (int i = 0; i < STOP_SIGNALS; i++) {
        if (is_handled[i]) sigaction(numbers[i], &previous[i], NULL);
    }
    // The process stops here.
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    // The signals are blocked before they are handled again, because the watcher's handler would send them to itself.
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < STOP_SIGNALS; i++) {
        if (is_handled[i]) handle(i);
    }
}

int rt_signal_is_ignored(int signal_number) {
    struct sigaction action;
    return sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}
