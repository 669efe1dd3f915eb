#include "CRoundtableShims.h"

#if defined(__linux__)

#include <sys/vfs.h>

int64_t rt_file_system_type(const char *path) {
    struct statfs info;
    return statfs(path, &info) == 0 ? (int64_t)(uint32_t)info.f_type : -1;
}

#endif
