#include "CFootprint.h"

#if defined(__APPLE__)
#include <sys/resource.h>

long footprint_peak_memory(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : 0;
}
#else
#include <stdio.h>

long footprint_peak_memory(void) {
    FILE *status = fopen("/proc/self/status", "r");
    if (status == NULL) return 0;
    char line[256];
    long kilobytes = 0;
    while (fgets(line, sizeof line, status) != NULL && sscanf(line, "VmHWM: %ld kB", &kilobytes) != 1) {}
    fclose(status);
    return kilobytes * 1024;
}
#endif
