#define _GNU_SOURCE
#include "CRoundtableTestShims.h"

#if defined(__linux__)

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

// CLOSE_RANGE_UNSHARE of linux/close_range.h, which older headers lack.
enum { UNSHARE = 1u << 1 };

int rt_leave_file_table(void) {
    // Since Linux 5.9, this creates a new table, into which nothing is copied.
    if (syscall(SYS_close_range, 0, ~0u, UNSHARE) == 0) return 0;
    if (errno != ENOSYS && errno != EINVAL) return errno;
    // Before Linux 5.9, the thread gets a copy of the table, which is freed when the thread ends.
    return unshare(CLONE_FILES) == 0 ? 0 : errno;
}

int rt_give_up_root(unsigned user) {
    return syscall(SYS_setresuid, user, user, user) == 0 ? 0 : errno;
}

int rt_peer_pid(int socket) {
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : -1;
}

unsigned rt_peer_user(int socket) {
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.uid : (unsigned)-1;
}

int rt_byte_attribute(const char *path, const char *name) {
    unsigned char value;
    // A longer value does not fit, and is an error.
    return getxattr(path, name, &value, 1) == 1 ? value : -1;
}

#endif
