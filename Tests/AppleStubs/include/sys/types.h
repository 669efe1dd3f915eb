// <sys/types.h> of Darwin, as far as the package uses it.
#pragma once
#include <stdint.h>

typedef long ssize_t;
typedef int32_t dev_t;
typedef int32_t pid_t;
typedef int64_t off_t;
typedef uint16_t mode_t;
typedef uint16_t nlink_t;
typedef uint32_t gid_t;
typedef uint32_t uid_t;
typedef uint64_t ino_t;
