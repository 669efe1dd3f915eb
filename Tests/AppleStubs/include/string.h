// <string.h> of Darwin, as far as the package uses it.
#pragma once
#include <stddef.h>

void *memcpy(void *restrict, const void *restrict, size_t);
void *memset(void *, int, size_t);
int strcmp(const char *, const char *);
size_t strlen(const char *);
