// <signal.h> of Darwin, as far as the package uses it.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define SIGKILL 9
#define SIGBUS 10
#define SIGALRM 14
#define SIGSTOP 17
#define SIGTSTP 18
#define SIGCONT 19
#define SIGTTIN 21
#define SIGTTOU 22

#define SIG_DFL ((void (*)(int))0)
#define SIG_IGN ((void (*)(int))1)
#define SIG_ERR ((void (*)(int))-1)

#define SIG_BLOCK 1
#define SIG_UNBLOCK 2
#define SIG_SETMASK 3

#define SA_ONSTACK 0x0001
#define SA_RESTART 0x0002
#define SA_NODEFER 0x0010
#define SA_SIGINFO 0x0040

// What sends a signal is a positive code, unlike on Linux.
#define SI_USER 0x10001
#define SI_QUEUE 0x10002
#define BUS_ADRALN 1
#define BUS_ADRERR 2
#define BUS_OBJERR 3

typedef uint32_t sigset_t;

typedef struct __siginfo {
    int si_signo;
    int si_errno;
    int si_code;
    int32_t si_pid;
    uint32_t si_uid;
    int si_status;
    void *si_addr;
} siginfo_t;

union __sigaction_u {
    void (*__sa_handler)(int);
    void (*__sa_sigaction)(int, siginfo_t *, void *);
};
struct sigaction {
    union __sigaction_u __sigaction_u;
    sigset_t sa_mask;
    int sa_flags;
};
#define sa_handler __sigaction_u.__sa_handler
#define sa_sigaction __sigaction_u.__sa_sigaction

int raise(int);
int sigaction(int, const struct sigaction *restrict, struct sigaction *restrict);
void (*signal(int, void (*)(int)))(int);
int sigaddset(sigset_t *, int);
int sigdelset(sigset_t *, int);
int sigemptyset(sigset_t *);
int sigfillset(sigset_t *);
int sigismember(const sigset_t *, int);
int sigpending(sigset_t *);
