#include "CRoundtableShims.h"

#include <stdatomic.h>

static atomic_int is_off;

int rt_default_log_is_off(void) { return atomic_load_explicit(&is_off, memory_order_relaxed); }

void rt_set_default_log_off(int value) { atomic_store_explicit(&is_off, value, memory_order_relaxed); }
