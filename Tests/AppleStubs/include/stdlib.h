// <stdlib.h> of Darwin, as far as the package uses it.
#pragma once
#include <stddef.h>

void *calloc(size_t, size_t);
void free(void *);
const char *getprogname(void);
