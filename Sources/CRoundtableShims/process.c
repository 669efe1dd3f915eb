#define _GNU_SOURCE
#include "CRoundtableShims.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

// A file that connections of one generation have open.
struct open_file {
    struct open_file *next;
    uint64_t device, inode;
    uint32_t generation, connections;
};

static atomic_uint generation;
// The list is guarded by `files_lock`. The forking thread holds it during a fork, so that no other thread holds it in the child.
static struct open_file *files;
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void) { pthread_mutex_lock(&files_lock); }

static void in_parent(void) { pthread_mutex_unlock(&files_lock); }

// The descriptors that a child closes, plus 1; 0 is free.
enum { KEPT_CAPACITY = 512 };
static atomic_int kept[KEPT_CAPACITY];

static void in_child(void) {
    atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&files_lock);
    for (int i = 0; i < KEPT_CAPACITY; i++) {
        int descriptor = atomic_exchange(&kept[i], 0) - 1;
        if (descriptor >= 0) close(descriptor);
    }
}

// The handlers are registered when the program is loaded, because a fork during a later registration would run some of them twice.
__attribute__((constructor)) static void register_handlers(void) {
    pthread_atfork(before_fork, in_parent, in_child);
}

uint32_t rt_fork_generation(void) { return atomic_load_explicit(&generation, memory_order_relaxed); }

uint32_t rt_open_file_add(uint64_t device, uint64_t inode) {
    pthread_mutex_lock(&files_lock);
    uint32_t current = rt_fork_generation();
    struct open_file *file = files;
    while (file && !(file->device == device && file->inode == inode && file->generation == current)) file = file->next;
    if (!file && (file = calloc(1, sizeof *file))) {
        *file = (struct open_file){files, device, inode, current, 0};
        files = file;
    }
    if (file) file->connections++;
    pthread_mutex_unlock(&files_lock);
    return current;
}

void rt_open_file_remove(uint64_t device, uint64_t inode, uint32_t generation) {
    pthread_mutex_lock(&files_lock);
    for (struct open_file **link = &files; *link; link = &(*link)->next) {
        struct open_file *file = *link;
        if (file->device != device || file->inode != inode || file->generation != generation) continue;
        if (--file->connections == 0) {
            *link = file->next;
            free(file);
        }
        break;
    }
    pthread_mutex_unlock(&files_lock);
}

int rt_open_file_is_inherited(uint64_t device, uint64_t inode) {
    // Most processes were not forked, or have called `exec` since: they need no lookup.
    uint32_t current = rt_fork_generation();
    if (current == 0) return 0;
    pthread_mutex_lock(&files_lock);
    struct open_file *file = files;
    while (file && !(file->device == device && file->inode == inode && file->generation != current)) file = file->next;
    pthread_mutex_unlock(&files_lock);
    return file != NULL;
}

int rt_close_in_child(int descriptor) {
    for (int i = 0; i < KEPT_CAPACITY; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&kept[i], &none, descriptor + 1)) return i;
    }
    return -1;
}

void rt_keep_in_child(int index) {
    if (index >= 0 && index < KEPT_CAPACITY) atomic_store(&kept[index], 0);
}

void rt_name_thread(const char *name) {
#ifdef __APPLE__
    pthread_setname_np(name);
#else
    pthread_setname_np(pthread_self(), name);
#endif
}

static _Thread_local void *thread_local_value;

void *rt_thread_local_get(void) { return thread_local_value; }
void rt_thread_local_set(void *value) { thread_local_value = value; }
