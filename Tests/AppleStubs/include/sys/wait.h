// <sys/wait.h> of Darwin, as far as the package uses it.
#pragma once
#include <availability.h>
#include <signal.h>
#include <unistd.h>

#define WIFEXITED(status) (((status) & 0177) == 0)
#define WIFSIGNALED(status) (((status) & 0177) != 0177 && ((status) & 0177) != 0)
#define WTERMSIG(status) ((status) & 0177)
#define WEXITSTATUS(status) (((status) >> 8) & 0xff)

pid_t waitpid(pid_t, int *, int);
