#define _GNU_SOURCE
#include "CRoundtableShims.h"

#include <dlfcn.h>

void *rt_symbol_beside(const void *neighbour, const char *name) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    Dl_info here, there;
    if (!symbol || !dladdr(neighbour, &here) || !dladdr(symbol, &there)) return NULL;
    return here.dli_fbase == there.dli_fbase ? symbol : NULL;
}
