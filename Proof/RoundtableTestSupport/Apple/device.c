// A library that a program preloads (ld.so(8)): a device with protection classes, which locks. The word in the file `ROUNDTABLE_DEVICE` says
// whether it is locked, and an extended attribute is the class of each file below `ROUNDTABLE_DEVICE_FOLDER`; without one, class A.
//
// While it is locked, as Apple documents for data protection: a file of class A cannot be opened, read or written, one of class B only if it
// was opened before, and a mapped page of either faults. The class of each file is asked at each call, because another process may change it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char attribute[] = "user.roundtable.protection-class";
enum { A = '1', B = '2' };

static const char *folder;
// 0: unlocked. An odd number: locked. It grows, so that a waiter misses no change.
static _Atomic(uint32_t) *word;

static int is_locked(void) { return word && (atomic_load(word) & 1); }
static int concerns(const char *path) { return folder && path && strncmp(path, folder, strlen(folder)) == 0; }

static int class_of(const char *path) {
    char value = A;
    return getxattr(path, attribute, &value, 1) == 1 || errno == ENODATA ? value : 0;
}

// Whether a call on an open file is refused.
static int is_refused(int descriptor) {
    if (!is_locked()) return 0;
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    if (!concerns(path)) return 0;
    char value = A;
    if (fgetxattr(descriptor, attribute, &value, 1) != 1 && errno != ENODATA) return 0;
    if (value == A) errno = EPERM;
    return value == A;
}

static int is_opening_refused(const char *path, int may_create) {
    if (!is_locked() || !concerns(path)) return 0;
    struct stat status;
    int exists = stat(path, &status) == 0;
    if (exists ? S_ISDIR(status.st_mode) : !may_create) return 0;
    // New files get class A, which no file can get while the device is locked.
    int class = exists ? class_of(path) : A;
    if (class != A && class != B) return 0;
    errno = EPERM;
    return 1;
}

static int opened(int directory, const char *path, int flags, va_list arguments) {
    int may_create = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    mode_t mode = may_create ? va_arg(arguments, mode_t) : 0;
    char whole[2 * PATH_MAX], link[32];
    snprintf(whole, sizeof whole, "%s", path);
    if (path[0] != '/' && directory != AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        ssize_t length = readlink(link, whole, PATH_MAX);
        if (length > 0) snprintf(whole + length, PATH_MAX, "/%s", path);
    }
    if (is_opening_refused(whole, flags & O_CREAT)) return -1;
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

#define OPEN(name, directory, ...)                          \
    int name(__VA_ARGS__ const char *path, int flags, ...) { \
        va_list arguments;                                  \
        va_start(arguments, flags);                         \
        int result = opened(directory, path, flags, arguments); \
        va_end(arguments);                                  \
        return result;                                      \
    }
#define COMMA ,
OPEN(open, AT_FDCWD)
OPEN(open64, AT_FDCWD)
OPEN(openat, directory, int directory COMMA)
OPEN(openat64, directory, int directory COMMA)

#define TRANSFER(name, pointer, ...)                                           \
    ssize_t name(int descriptor, pointer bytes, size_t count, off_t offset) {  \
        static _Atomic(__typeof__(&name)) real;                                \
        if (!real) real = dlsym(RTLD_NEXT, #name);                                          \
        if (is_refused(descriptor)) return -1;                                 \
        return real(descriptor, bytes, count, offset);                         \
    }
TRANSFER(pread, void *)
TRANSFER(pread64, void *)
TRANSFER(pwrite, const void *)
TRANSFER(pwrite64, const void *)

// Makes the mapped pages of classes A and B fault, or all pages readable again.
static void change_mappings(int hides) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    while (maps && fgets(line, sizeof line, maps)) {
        uintptr_t base, end;
        char access[5], path[PATH_MAX] = "";
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %[^\n]", &base, &end, access, path) < 4 || !concerns(path)) continue;
        if ((access[0] == 'r') != hides) continue;
        if (!hides) {
            if (mprotect((void *)base, end - base, PROT_READ | PROT_WRITE)) mprotect((void *)base, end - base, PROT_READ);
            continue;
        }
        // A file without a name is reached by its mapping.
        char link[96];
        snprintf(link, sizeof link, "/proc/self/map_files/%lx-%lx", base, end);
        int class = class_of(strstr(path, " (deleted)") ? link : path);
        if (class == A || class == B) mprotect((void *)base, end - base, PROT_NONE);
    }
    if (maps) fclose(maps);
}

static void *follow(void *unused) {
    for (;;) {
        uint32_t seen = atomic_load(word);
        change_mappings(seen & 1);
        // While it is locked, new mappings are looked for.
        struct timespec patience = {0, 1000000};
        syscall(SYS_futex, word, FUTEX_WAIT, seen, seen & 1 ? &patience : NULL, NULL, 0);
    }
    return unused;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("ROUNDTABLE_DEVICE");
    folder = getenv("ROUNDTABLE_DEVICE_FOLDER");
    if (!path || !folder) return;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    void *memory = descriptor < 0 ? MAP_FAILED : mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    pthread_t thread;
    if (memory == MAP_FAILED) abort();
    close(descriptor);
    word = memory;
    if (pthread_create(&thread, NULL, follow, NULL)) abort();
}
