// Darwin's clocks that Linux does not have (time.h of the SDK).
#pragma once
#include_next <time.h>
#define CLOCK_UPTIME_RAW 8
#define CLOCK_UPTIME_RAW_APPROX 9
