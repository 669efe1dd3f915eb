#include "CRoundtableShims.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_uint generation;
static pthread_once_t registered = PTHREAD_ONCE_INIT;

static void in_child(void) { atomic_fetch_add(&generation, 1); }
static void register_handler(void) { pthread_atfork(NULL, NULL, in_child); }

uint32_t rt_fork_generation(void) {
    pthread_once(&registered, register_handler);
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

int rt_fork(void) { return fork(); }

static _Thread_local void *thread_local_value;

void *rt_thread_local_get(void) { return thread_local_value; }
void rt_thread_local_set(void *value) { thread_local_value = value; }
