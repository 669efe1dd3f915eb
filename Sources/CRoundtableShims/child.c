#include "CRoundtableShims.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

// Each element holds a descriptor + 1; 0 is free. The handler runs in the only thread of the child.
static atomic_int kept[RT_CHILD_CAPACITY];
static pthread_once_t registered = PTHREAD_ONCE_INIT;

static void in_child(void) {
    for (int i = 0; i < RT_CHILD_CAPACITY; i++) {
        int descriptor = atomic_exchange(&kept[i], 0) - 1;
        if (descriptor >= 0) close(descriptor);
    }
}

static void register_handler(void) { pthread_atfork(NULL, NULL, in_child); }

int rt_close_in_child(int descriptor) {
    pthread_once(&registered, register_handler);
    for (int i = 0; i < RT_CHILD_CAPACITY; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&kept[i], &none, descriptor + 1)) return i;
    }
    return -1;
}

void rt_keep_in_child(int index) {
    if (index >= 0 && index < RT_CHILD_CAPACITY) atomic_store(&kept[index], 0);
}
