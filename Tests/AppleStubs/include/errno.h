// <errno.h> of Darwin, as far as the package uses it.
#pragma once

int *__error(void);
#define errno (*__error())

#define ENOENT 2
#define EINTR 4
#define ECHILD 10
#define ENOMEM 12
#define EFAULT 14
#define EINVAL 22
#define ENOTSUP 45
#define ETIMEDOUT 60
#define ENOSYS 78
