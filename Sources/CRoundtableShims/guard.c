#include "CRoundtableShims.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

// A slot belongs to the thread that has set `is_taken`. There is no lock: if another thread held it during a fork, the child would wait for
// it forever. The handler reads slots at any time, and uses those whose length is not 0. Therefore `base` is written before `length` when
// a slot is filled, and `length` is cleared first when it is freed.
struct guarded {
    atomic_int is_taken;
    _Atomic(uintptr_t) base;
    _Atomic(size_t) length;
    atomic_int lost;
};

static struct guarded table[RT_GUARD_CAPACITY];
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static struct sigaction previous;

// The codes of signals that processes send differ between systems: they are negative or 0 on Linux, and SI_USER is 0x10001 on Apple's systems.
// Those of faults are the same, and Linux has two more for faults of the hardware.
int rt_guard_is_fault(int code) { return code >= BUS_ADRALN && code <= BUS_OBJERR + 2; }

static void pass_on(int signal_number, siginfo_t *info, void *context) {
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal_number, info, context);
    } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
        // The faulting instruction runs again, and then ends the process as it would have without this handler.
        signal(signal_number, SIG_DFL);
        // A signal that a process has sent has no faulting instruction, so it is raised again.
        if (!rt_guard_is_fault(info->si_code)) raise(signal_number);
    } else {
        previous.sa_handler(signal_number);
    }
}

static void on_bus_error(int signal_number, siginfo_t *info, void *context) {
    uintptr_t address = (uintptr_t)info->si_addr;
    for (int i = 0; i < RT_GUARD_CAPACITY; i++) {
        size_t length = atomic_load(&table[i].length);
        uintptr_t base = atomic_load(&table[i].base);
        if (length == 0 || address < base || address - base >= length) continue;
        void *zeros = mmap((void *)base, length, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANON, -1, 0);
        if (zeros == MAP_FAILED) break;
        atomic_store(&table[i].lost, 1);
        return;
    }
    pass_on(signal_number, info, context);
}

static void install(void) {
    struct sigaction action = {0};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
}

int rt_guard_add(void *base, size_t length) {
    pthread_once(&installed, install);
    for (int i = 0; i < RT_GUARD_CAPACITY; i++) {
        int is_taken = 0;
        if (!atomic_compare_exchange_strong(&table[i].is_taken, &is_taken, 1)) continue;
        atomic_store(&table[i].lost, 0);
        atomic_store(&table[i].base, (uintptr_t)base);
        atomic_store(&table[i].length, length);
        return i;
    }
    return -1;
}

void rt_guard_remove(int index) {
    atomic_store(&table[index].length, 0);
    atomic_store(&table[index].is_taken, 0);
}

int rt_guard_is_lost(int index) { return atomic_load(&table[index].lost); }
