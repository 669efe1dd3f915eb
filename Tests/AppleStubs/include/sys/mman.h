// <sys/mman.h> of Darwin, as far as the package uses it.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define PROT_READ 0x01
#define PROT_WRITE 0x02
#define MAP_PRIVATE 0x0002
#define MAP_FIXED 0x0010
#define MAP_ANON 0x1000
#define MAP_FAILED ((void *)-1)

void *mmap(void *, size_t, int, int, int, int64_t);
int munmap(void *, size_t);
