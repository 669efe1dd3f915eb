#define _GNU_SOURCE
#include "CRoundtableTestSupport.h"

#include "CRoundtableShims.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHURNERS = 2, SIZE = 65536, SECONDS = 10 };

struct churn {
    void *page;
    atomic_int is_over;
};

static void *change_until_over(void *argument) {
    struct churn *churn = argument;
    while (!atomic_load(&churn->is_over)) rt_guard_remove(rt_guard_add(churn->page, SIZE));
    return NULL;
}

// Forks once. The child changes the table and ends; a child that hangs is ended by its alarm.
static int fork_once(struct churn *churn) {
    pid_t child = fork();
    if (child == -1) return errno;
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        sigset_t alarms;
        sigemptyset(&alarms);
        sigaddset(&alarms, SIGALRM);
        pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
        alarm(SECONDS);
        rt_guard_remove(rt_guard_add(churn->page, SIZE));
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) == -1) {
        if (errno != EINTR) return errno;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return ETIMEDOUT;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : ECHILD;
}

int rt_fork_while_changing(int forks) {
    struct churn churn = {0};
    churn.page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (churn.page == MAP_FAILED) return errno;
    pthread_t threads[CHURNERS];
    int started = 0, result = 0;
    while (started < CHURNERS && result == 0) {
        result = pthread_create(&threads[started], NULL, change_until_over, &churn);
        if (result == 0) started++;
    }
    for (int i = 0; i < forks && result == 0; i++) result = fork_once(&churn);
    atomic_store(&churn.is_over, 1);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    munmap(churn.page, SIZE);
    return result;
}

int rt_fork(void) { return fork(); }
