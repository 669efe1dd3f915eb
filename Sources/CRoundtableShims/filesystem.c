#define _GNU_SOURCE
#include "CRoundtableShims.h"

#if defined(__linux__)

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

int32_t rt_named_file(const char *path, struct rt_named_file *file) {
    struct statx info;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &info) != 0) {
        // Some sandboxes forbid statx.
        struct stat status;
        if ((errno != ENOSYS && errno != EPERM) || lstat(path, &status) != 0) return -1;
        *file = (struct rt_named_file){.device = status.st_dev, .inode = status.st_ino};
        return 0;
    }
    *file = (struct rt_named_file){.device = makedev(info.stx_dev_major, info.stx_dev_minor), .inode = info.stx_ino};
    if (info.stx_mask & STATX_BTIME) file->birth = info.stx_btime.tv_sec * 1000000000 + info.stx_btime.tv_nsec;
    return 0;
}

#include <sys/vfs.h>

int64_t rt_file_system_type(const char *path) {
    struct statfs info;
    return statfs(path, &info) == 0 ? (int64_t)(uint32_t)info.f_type : -1;
}

int64_t rt_mount_number(const char *path) {
#ifdef STATX_MNT_ID
    struct statx info;
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_MNT_ID, &info) != 0) return -1;
    return info.stx_mask & STATX_MNT_ID ? (int64_t)info.stx_mnt_id : 0;
#else
    (void)path;
    return 0;
#endif
}

#endif
