// <unistd.h> of Darwin, as far as the package uses it.
#pragma once
#include <availability.h>
#include <stddef.h>
#include <sys/types.h>

pid_t fork(void) RT_NOT_ON_TV_OR_WATCH;
pid_t getpid(void);
int close(int);
ssize_t write(int, const void *, size_t);
int pause(void);
unsigned int alarm(unsigned int);
void _exit(int) __attribute__((noreturn));
