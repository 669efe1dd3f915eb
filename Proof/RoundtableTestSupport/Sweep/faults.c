// A library that a program preloads (ld.so(8)). It stands around the system calls that concern one folder, numbers them while it is armed,
// and makes one of them fail, or kills the process there. SQLite, Foundation and the library under test meet it alike.
//
// Only `ROUNDTABLE_FAULT_FOLDER` and what is below it is concerned: paths that begin with it, descriptors and mappings that were made of such
// paths, and futexes that processes share. All other calls pass through.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

// The C library's own `syscall`, which this library also stands around.
static long (*real)(long, ...);
__attribute__((constructor)) static void find(void) {
    if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}
static long (*found(void))(long, ...) { find(); return real; }
#define syscall(...) found()(__VA_ARGS__)

enum { CAPACITY = 4096, MAPPINGS = 256, LOGGED = 60000, NAME = 40 };
enum action { RECORD, KILL_BEFORE, KILL_AFTER, KILL_HALF, ERRNO_ONCE, ERRNO_FOREVER, SHORT_ONCE };

// The file that a descriptor belongs to; "" for one that is not concerned.
static char roles[CAPACITY][NAME];
// Each mapping that is concerned. `base` is 0 in a free element.
static struct { _Atomic(uintptr_t) base; char role[NAME]; } mappings[MAPPINGS];

static struct { const char *call; char role[NAME]; } *logged;
static atomic_int armed, counter, taken;
static int action, target, error_number;
// The only call that may report the error; "" for any.
static char expected[NAME];
// The call that fails for ever, from the call number `target` on.
static _Atomic(const char *) failing;

void rt_faults_arm(int new_action, int number, int new_errno, const char *name) {
    if (!logged) logged = calloc(LOGGED, sizeof(*logged));
    action = new_action;
    target = number;
    error_number = new_errno;
    snprintf(expected, NAME, "%s", name);
    atomic_store(&failing, NULL);
    atomic_store(&counter, 0);
    atomic_store(&taken, 0);
    atomic_store(&armed, 1);
}

// Returns how many calls there were.
int rt_faults_disarm(void) {
    atomic_store(&armed, 0);
    return atomic_load(&counter);
}

// How many calls were made to fail.
int rt_faults_taken(void) { return atomic_load(&taken); }
const char *rt_faults_call(int number) { return number < LOGGED ? logged[number].call : "?"; }
const char *rt_faults_role(int number) { return number < LOGGED ? logged[number].role : "?"; }

static const char *folder(void) {
    static _Atomic(const char *) known;
    const char *value = atomic_load(&known);
    if (!value) {
        value = getenv("ROUNDTABLE_FAULT_FOLDER");
        if (!value) value = "";
        atomic_store(&known, value);
    }
    return value;
}

// The role of a path: what follows the folder of one world, "" when the path is not concerned.
static const char *role_of_path(const char *path) {
    size_t length = strlen(folder());
    if (!path || length == 0 || strncmp(path, folder(), length) != 0) return "";
    const char *rest = path + length;
    while (*rest == '/') rest++;
    const char *slash = strchr(rest, '/');
    return slash && slash[1] ? slash + 1 : "folder";
}

static const char *role_of(int descriptor) {
    return descriptor >= 0 && descriptor < CAPACITY ? roles[descriptor] : "";
}

static const char *role_at(int directory, const char *path) {
    if (path && path[0] == '/') return role_of_path(path);
    return directory == AT_FDCWD ? "" : role_of(directory)[0] ? (path && path[0] ? path : role_of(directory)) : "";
}

static void track(int descriptor, const char *role) {
    if (descriptor >= 0 && descriptor < CAPACITY) snprintf(roles[descriptor], NAME, "%s", role);
}

enum verdict { PASS, DIE_AFTER, HALF_THEN_DIE, FAIL, SHORTEN };

static void die(void) {
    syscall(SYS_kill, (long)syscall(SYS_getpid), (long)SIGKILL);
    for (;;) syscall(SYS_pause);
}

static enum verdict meet(const char *call, const char *role) {
    if (!role[0] || !atomic_load(&armed)) return PASS;
    int number = atomic_fetch_add(&counter, 1);
    if (action == RECORD && number < LOGGED) {
        logged[number].call = call;
        snprintf(logged[number].role, NAME, "%s", role);
    }
    if (action == RECORD) return PASS;
    const char *fails = atomic_load(&failing);
    if (fails && strcmp(fails, call) == 0) {
        atomic_fetch_add(&taken, 1);
        errno = error_number;
        return FAIL;
    }
    if (expected[0]) {
        // Other threads shift the numbers a little: an error goes to the next call of its name, because others do not report it.
        if (number < target || strcmp(call, expected) != 0 || atomic_load(&taken)) return PASS;
    } else if (number != target) {
        return PASS;
    }
    atomic_fetch_add(&taken, 1);
    switch (action) {
    case KILL_BEFORE: die(); return PASS;
    case KILL_AFTER: return DIE_AFTER;
    case KILL_HALF: return HALF_THEN_DIE;
    case SHORT_ONCE: return SHORTEN;
    case ERRNO_FOREVER: atomic_store(&failing, call); // falls through
    default: errno = error_number; return FAIL;
    }
}

#define NEXT(name, type) static __typeof__(type) next; if (!next) next = (__typeof__(type))dlsym(RTLD_NEXT, name)
// The call, as a macro: what fails returns `failure`, what dies afterwards dies, all else is the system's.
#define AROUND(name, role, type, failure, real) do { \
        static const char call_name[] = name; \
        enum verdict verdict = meet(call_name, role); \
        if (verdict == FAIL) return failure; \
        type result = real; \
        if (verdict == DIE_AFTER || verdict == HALF_THEN_DIE) die(); \
        return result; \
    } while (0)

// MARK: Opening and closing

static int opened(const char *call, int directory, const char *path, int flags, mode_t mode) {
    char role[NAME];
    snprintf(role, NAME, "%s", role_at(directory, path));
    enum verdict verdict = meet(call, role);
    if (verdict == FAIL) return -1;
    int result = (int)syscall(SYS_openat, directory, path, flags, mode);
    if (verdict == DIE_AFTER) die();
    if (result >= 0) track(result, role);
    return result;
}

static const char open_name[] = "open";
#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list list; va_start(list, flags); mode = va_arg(list, mode_t); va_end(list); }
int open(const char *path, int flags, ...) { MODE return opened(open_name, AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(open_name, AT_FDCWD, path, flags, mode); }
int openat(int directory, const char *path, int flags, ...) { MODE return opened(open_name, directory, path, flags, mode); }
int openat64(int directory, const char *path, int flags, ...) { MODE return opened(open_name, directory, path, flags, mode); }

int close(int descriptor) {
    static const char name[] = "close";
    char role[NAME];
    snprintf(role, NAME, "%s", role_of(descriptor));
    enum verdict verdict = meet(name, role);
    int code = errno;
    track(descriptor, "");
    // On Linux, a descriptor is closed even if close(2) reports an error.
    int result = (int)syscall(SYS_close, descriptor);
    if (verdict == DIE_AFTER) die();
    if (verdict == FAIL) { errno = code; return -1; }
    return result;
}

// MARK: Reading and writing

ssize_t read(int descriptor, void *bytes, size_t count) {
    AROUND("read", role_of(descriptor), ssize_t, -1, syscall(SYS_read, descriptor, bytes, count));
}
static ssize_t positioned_read(int descriptor, void *bytes, size_t count, off_t offset) {
    AROUND("pread", role_of(descriptor), ssize_t, -1, syscall(SYS_pread64, descriptor, bytes, count, offset));
}
ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) { return positioned_read(descriptor, bytes, count, offset); }
ssize_t pread64(int descriptor, void *bytes, size_t count, off_t offset) { return positioned_read(descriptor, bytes, count, offset); }

static ssize_t written(const char *name, int descriptor, const void *bytes, size_t count, off_t offset, int positioned) {
    enum verdict verdict = meet(name, role_of(descriptor));
    if (verdict == FAIL) return -1;
    if ((verdict == HALF_THEN_DIE || verdict == SHORTEN) && count > 1) count /= 2;
    ssize_t result = positioned ? syscall(SYS_pwrite64, descriptor, bytes, count, offset)
                                : syscall(SYS_write, descriptor, bytes, count);
    if (verdict == DIE_AFTER || verdict == HALF_THEN_DIE) die();
    return result;
}
static const char write_name[] = "write", pwrite_name[] = "pwrite";
ssize_t write(int descriptor, const void *bytes, size_t count) { return written(write_name, descriptor, bytes, count, 0, 0); }
ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    return written(pwrite_name, descriptor, bytes, count, offset, 1);
}
ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off_t offset) {
    return written(pwrite_name, descriptor, bytes, count, offset, 1);
}

static int truncated(int descriptor, off_t size) {
    AROUND("ftruncate", role_of(descriptor), int, -1, (int)syscall(SYS_ftruncate, descriptor, size));
}
int ftruncate(int descriptor, off_t size) { return truncated(descriptor, size); }
int ftruncate64(int descriptor, off_t size) { return truncated(descriptor, size); }
int fsync(int descriptor) { AROUND("fsync", role_of(descriptor), int, -1, (int)syscall(SYS_fsync, descriptor)); }
int fdatasync(int descriptor) { AROUND("fdatasync", role_of(descriptor), int, -1, (int)syscall(SYS_fdatasync, descriptor)); }

// MARK: Names

static int unlinked(int directory, const char *path, int flags) {
    AROUND("unlink", role_at(directory, path), int, -1, (int)syscall(SYS_unlinkat, directory, path, flags));
}
int unlink(const char *path) { return unlinked(AT_FDCWD, path, 0); }
int unlinkat(int directory, const char *path, int flags) { return unlinked(directory, path, flags); }
int rmdir(const char *path) { return unlinked(AT_FDCWD, path, AT_REMOVEDIR); }

static int renamed(int from, const char *old, int to, const char *new, unsigned flags) {
    AROUND("rename", role_at(to, new), int, -1, (int)syscall(SYS_renameat2, from, old, to, new, flags));
}
int rename(const char *old, const char *new) { return renamed(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new) { return renamed(from, old, to, new, 0); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) { return renamed(from, old, to, new, flags); }

static int linked(int from, const char *old, int to, const char *new, int flags) {
    AROUND("link", role_at(to, new), int, -1, (int)syscall(SYS_linkat, from, old, to, new, flags));
}
int link(const char *old, const char *new) { return linked(AT_FDCWD, old, AT_FDCWD, new, 0); }
int linkat(int from, const char *old, int to, const char *new, int flags) { return linked(from, old, to, new, flags); }

static int made(int directory, const char *path, mode_t mode) {
    AROUND("mkdir", role_at(directory, path), int, -1, (int)syscall(SYS_mkdirat, directory, path, mode));
}
int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }
int mkdirat(int directory, const char *path, mode_t mode) { return made(directory, path, mode); }

// MARK: Properties

#define PROPERTY(symbol, name, role, parameters, ...) int symbol parameters { \
        NEXT(#symbol, int (*) parameters); \
        AROUND(name, role, int, -1, next(__VA_ARGS__)); \
    }
PROPERTY(stat, "stat", role_of_path(path), (const char *path, struct stat *into), path, into)
PROPERTY(stat64, "stat", role_of_path(path), (const char *path, struct stat64 *into), path, into)
PROPERTY(lstat, "stat", role_of_path(path), (const char *path, struct stat *into), path, into)
PROPERTY(lstat64, "stat", role_of_path(path), (const char *path, struct stat64 *into), path, into)
PROPERTY(fstat, "fstat", role_of(fd), (int fd, struct stat *into), fd, into)
PROPERTY(fstat64, "fstat", role_of(fd), (int fd, struct stat64 *into), fd, into)
PROPERTY(fstatat, "stat", role_at(fd, path), (int fd, const char *path, struct stat *into, int flags), fd, path, into, flags)
PROPERTY(fstatat64, "stat", role_at(fd, path), (int fd, const char *path, struct stat64 *into, int flags), fd, path, into, flags)
PROPERTY(access, "access", role_of_path(path), (const char *path, int mode), path, mode)
PROPERTY(chmod, "chmod", role_of_path(path), (const char *path, mode_t mode), path, mode)
PROPERTY(fchmod, "chmod", role_of(fd), (int fd, mode_t mode), fd, mode)
PROPERTY(fchown, "chown", role_of(fd), (int fd, uid_t user, gid_t group), fd, user, group)
PROPERTY(statfs, "statfs", role_of_path(path), (const char *path, struct statfs *into), path, into)
PROPERTY(fstatfs, "statfs", role_of(fd), (int fd, struct statfs *into), fd, into)

ssize_t readlink(const char *path, char *into, size_t size) {
    AROUND("readlink", role_of_path(path), ssize_t, -1, syscall(SYS_readlink, path, into, size));
}
char *realpath(const char *path, char *into) {
    // The default version of the symbol: the older one does not allocate.
    static char *(*next)(const char *, char *);
    if (!next) next = (char *(*)(const char *, char *))dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3");
    AROUND("realpath", role_of_path(path), char *, NULL, next(path, into));
}

// MARK: Folders

DIR *opendir(const char *path) {
    static const char name[] = "opendir";
    NEXT("opendir", DIR *(*)(const char *));
    char role[NAME];
    snprintf(role, NAME, "%s", role_of_path(path));
    enum verdict verdict = meet(name, role);
    if (verdict == FAIL) return NULL;
    DIR *result = next(path);
    if (verdict == DIE_AFTER) die();
    if (result && role[0]) track(dirfd(result), role);
    return result;
}
DIR *fdopendir(int fd) {
    NEXT("fdopendir", DIR *(*)(int));
    AROUND("opendir", role_of(fd), DIR *, NULL, next(fd));
}
struct dirent *readdir(DIR *directory) {
    NEXT("readdir", struct dirent *(*)(DIR *));
    AROUND("readdir", role_of(dirfd(directory)), struct dirent *, NULL, next(directory));
}
int closedir(DIR *directory) {
    NEXT("closedir", int (*)(DIR *));
    track(dirfd(directory), "");
    return next(directory);
}

// MARK: Locks, mappings, waiting

static const char *lock_role(int fd, int command) {
    switch (command) {
    case F_SETLK: case F_SETLKW: case F_GETLK: case F_OFD_SETLK: case F_OFD_SETLKW: case F_OFD_GETLK: return role_of(fd);
    default: return "";
    }
}
static int controlled(int fd, int command, void *argument) {
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
        int copy = (int)syscall(SYS_fcntl, fd, command, argument);
        track(copy, role_of(fd));
        return copy;
    }
    if (command != F_GETLK && command != F_OFD_GETLK) {
        struct flock *lock = argument;
        // To release a lock cannot fail, but a process can die before and after.
        if (lock_role(fd, command)[0] && lock->l_type == F_UNLCK)
            AROUND("unlock", role_of(fd), int, -1, (int)syscall(SYS_fcntl, fd, command, argument));
    }
    AROUND("lock", lock_role(fd, command), int, -1, (int)syscall(SYS_fcntl, fd, command, argument));
}
int fcntl(int fd, int command, ...) {
    va_list list; va_start(list, command); void *argument = va_arg(list, void *); va_end(list);
    return controlled(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
    va_list list; va_start(list, command); void *argument = va_arg(list, void *); va_end(list);
    return controlled(fd, command, argument);
}

static void *mapped(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    static const char name[] = "mmap";
    char role[NAME];
    snprintf(role, NAME, "%s", flags & MAP_ANONYMOUS ? "" : role_of(fd));
    enum verdict verdict = meet(name, role);
    if (verdict == FAIL) return MAP_FAILED;
    void *result = (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
    if (verdict == DIE_AFTER) die();
    if (role[0] && result != MAP_FAILED)
        for (int i = 0; i < MAPPINGS; i++) {
            uintptr_t none = 0;
            if (!atomic_compare_exchange_strong(&mappings[i].base, &none, (uintptr_t)result)) continue;
            memcpy(mappings[i].role, role, NAME);
            break;
        }
    return result;
}
void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return mapped(address, length, protection, flags, fd, offset);
}
void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return mapped(address, length, protection, flags, fd, offset);
}
int munmap(void *address, size_t length) {
    char role[NAME] = "";
    for (int i = 0; i < MAPPINGS; i++) {
        uintptr_t base = (uintptr_t)address;
        if (atomic_load(&mappings[i].base) != base || base == 0) continue;
        memcpy(role, mappings[i].role, NAME);
        atomic_store(&mappings[i].base, 0);
        break;
    }
    AROUND("munmap", role, int, -1, (int)syscall(SYS_munmap, address, length));
}

int inotify_init1(int flags) { AROUND("inotify_init", "watch", int, -1, (int)syscall(SYS_inotify_init1, flags)); }
int inotify_add_watch(int fd, const char *path, uint32_t mask) {
    // A folder that is watched by its descriptor has a path in /proc/self/fd.
    const char *role = role_of_path(path);
    int watched = -1;
    if (!role[0] && path && sscanf(path, "/proc/self/fd/%d", &watched) == 1) role = role_of(watched);
    AROUND("inotify_add_watch", role, int, -1, (int)syscall(SYS_inotify_add_watch, fd, path, mask));
}

// The kernel layer calls futex(2) by its number. Those without FUTEX_PRIVATE_FLAG are shared by processes: the control block's.
static long waited(long word, long operation, long a, long b, long c, long d) {
    if (((int)operation & FUTEX_CMD_MASK) == FUTEX_WAIT)
        AROUND("futex-wait", "shared", long, -1, syscall(SYS_futex, word, operation, a, b, c, d));
    AROUND("futex-wake", "shared", long, -1, syscall(SYS_futex, word, operation, a, b, c, d));
}
long interposed(long number, ...) __asm__("syscall");
long interposed(long number, ...) {
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_futex && !(a[1] & FUTEX_PRIVATE_FLAG)) return waited(a[0], a[1], a[2], a[3], a[4], a[5]);
    return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
