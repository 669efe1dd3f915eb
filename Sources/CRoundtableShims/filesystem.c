#define _GNU_SOURCE
#include "CRoundtableShims.h"

#if defined(__linux__)

#include <fcntl.h>
#include <sys/vfs.h>

int64_t rt_file_system_type(const char *path) {
    struct statfs info;
    return statfs(path, &info) == 0 ? (int64_t)(uint32_t)info.f_type : -1;
}

int32_t rt_open_path_flag(void) { return O_PATH; }

#endif
