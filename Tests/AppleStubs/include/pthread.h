// <pthread.h> of Darwin, as far as the package uses it. Its pthread_setname_np names the calling thread.
#pragma once
#include <signal.h>
#include <stddef.h>

typedef struct _opaque_pthread_t *pthread_t;
typedef struct _opaque_pthread_attr_t {
    long __sig;
    char __opaque[56];
} pthread_attr_t;
typedef struct {
    long __sig;
    char __opaque[56];
} pthread_mutex_t;
typedef struct {
    long __sig;
    char __opaque[8];
} pthread_once_t;

typedef struct _opaque_pthread_mutexattr_t pthread_mutexattr_t;

#define PTHREAD_MUTEX_INITIALIZER {0x32AAABA7, {0}}
#define PTHREAD_ONCE_INIT {0x30B1BCBA, {0}}

int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
int pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int pthread_detach(pthread_t);
int pthread_join(pthread_t, void **);
int pthread_kill(pthread_t, int);
int pthread_mutex_destroy(pthread_mutex_t *);
int pthread_mutex_init(pthread_mutex_t *restrict, const pthread_mutexattr_t *restrict);
int pthread_mutex_lock(pthread_mutex_t *);
int pthread_mutex_trylock(pthread_mutex_t *);
int pthread_mutex_unlock(pthread_mutex_t *);
int pthread_once(pthread_once_t *, void (*)(void));
pthread_t pthread_self(void);
int pthread_setname_np(const char *);
int pthread_sigmask(int, const sigset_t *, sigset_t *);
