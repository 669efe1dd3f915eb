// <time.h> of Darwin, as far as the package uses it.
#pragma once
#include <availability.h>

struct timespec {
    long tv_sec;
    long tv_nsec;
};
typedef enum { CLOCK_REALTIME = 0, CLOCK_MONOTONIC = 6, CLOCK_UPTIME_RAW = 8, CLOCK_UPTIME_RAW_APPROX = 9 } clockid_t;

int clock_gettime(clockid_t, struct timespec *) RT_SINCE(10.12, 10.0, 3.0, 10.0);
