// A library that a program preloads (ld.so(8)). It plays a user who may write a folder in which the program works as another user, such as the
// superuser, and who acts right before one of its calls that concern files of that folder. It exists because no other process hits such a moment
// with certainty. A test compiles it, because it must not come near a product.
//
// A call is concerned if it names, or has a descriptor of, what is below ROUNDTABLE_ATTACK_FOLDER or the attacker's aim, ROUNDTABLE_ATTACK_TREASURE;
// and each start of a program is. What happens between two other calls could as well happen before the next one that is concerned.
//
// ROUNDTABLE_ATTACK has four words: the number of the call, what is put there ("none" counts the calls), in place of what, and after how many calls
// everything is put back (0: never). ROUNDTABLE_ATTACK_LOG gets a line for each call while calls are counted; else one for each thing that was
// exchanged, and one for each file or folder of the treasure that the program opens.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <spawn.h>
#include <sys/sendfile.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ATTACKER = 65534, MOST = 64, GROUPS = 64 };
static const char *folder = "", *treasure = "";
static char what[16] = "none", where[16] = "named";
static int number = -1, length, record = -1;
static atomic_int counter;
// Calls of this library itself are none of the program.
static __thread int is_own;
static struct { char path[PATH_MAX], away[PATH_MAX]; } exchanged[MOST];
static int count;

__attribute__((constructor)) static void begin(void) {
    const char *attack = getenv("ROUNDTABLE_ATTACK"), *log = getenv("ROUNDTABLE_ATTACK_LOG");
    if (!attack || !log || sscanf(attack, "%d %15s %15s %d", &number, what, where, &length) != 4) return;
    folder = getenv("ROUNDTABLE_ATTACK_FOLDER");
    treasure = getenv("ROUNDTABLE_ATTACK_TREASURE");
    int opened = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    record = fcntl(opened, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, opened);
    // Not for the programs that it starts.
    unsetenv("LD_PRELOAD");
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
    char text[2 * PATH_MAX];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    syscall(SYS_write, record, text, (size_t)size < sizeof(text) ? (size_t)size : sizeof(text));
}

static int is_below(const char *path, const char *top) {
    size_t size = strlen(top);
    return size > 0 && strncmp(path, top, size) == 0 && (path[size] == '/' || path[size] == 0);
}

// The path of an open file, wherever it has been moved.
static int path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
    ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[size > 0 ? size : 0] = 0;
    return size > 0;
}

// MARK: What the attacker does

static void put(const char *path, const char *away) {
    const char *name = strrchr(path, '/') + 1;
    char same[PATH_MAX], aim[PATH_MAX];
    struct stat old, found;
    int is_folder = strcmp(what, "folder-link") == 0 || (stat(away, &old) == 0 && S_ISDIR(old.st_mode));
    snprintf(same, sizeof(same), "%s/%s", treasure, name);
    // What has the name in the treasure does best; else, the folder in place of a folder, and the secret in place of a file.
    snprintf(aim, sizeof(aim), "%s%s", treasure, is_folder ? "" : "/secret");
    if (lstat(same, &found) == 0) snprintf(aim, sizeof(aim), "%s", same);
    if (strcmp(what, "link") == 0 || strcmp(what, "folder-link") == 0) symlink(aim, path);
    if (strcmp(what, "pipe") == 0) mkfifo(path, 0666);
    // Devices are made by the superuser alone: links lead to some that are there. /dev/zero has no end, and /dev/full takes nothing.
    if (strcmp(what, "zero") == 0) symlink("/dev/zero", path);
    if (strcmp(what, "full") == 0) symlink("/dev/full", path);
    if (strcmp(what, "file") == 0) {
        int new = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        syscall(SYS_fchmod, new, 0666);
        syscall(SYS_close, new);
    }
    if (strcmp(what, "folder") == 0 && mkdir(path, 0777) == 0) {
        chmod(path, 0777);
        DIR *names = opendir(treasure);
        for (struct dirent *entry; names && (entry = readdir(names));) {
            if (entry->d_name[0] == '.') continue;
            snprintf(aim, sizeof(aim), "%s/%s", treasure, entry->d_name);
            snprintf(same, sizeof(same), "%s/%s", path, entry->d_name);
            symlink(aim, same);
        }
        if (names) closedir(names);
    }
}

// Puts something in place of what has the path, or plants it where there is nothing. What the attacker may not do, the system denies.
static void exchange(const char *path) {
    char away[PATH_MAX], aim[PATH_MAX];
    if (count == MOST || !is_below(path, folder) || strcmp(path, folder) == 0 || strstr(path, ".stolen")) return;
    snprintf(away, sizeof(away), "%s.stolen-%d", path, count);
    if (syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, away, RENAME_NOREPLACE) != 0) {
        if (errno != ENOENT) return;
        away[0] = 0;
    }
    if (strcmp(what, "hard-link") == 0) {
        // A file in its place shows that the attacker may. Where fs.protected_hardlinks is off, he may then link to any file, too.
        int new = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (new < 0) return;
        syscall(SYS_close, new);
        unlink(path);
        setfsuid(0);
        snprintf(aim, sizeof(aim), "%s/%s", treasure, strrchr(path, '/') + 1);
        if (link(aim, path) != 0) snprintf(aim, sizeof(aim), "%s/secret", treasure), link(aim, path);
        setfsuid(ATTACKER);
    } else {
        put(path, away);
    }
    struct stat now;
    if (lstat(path, &now) != 0 && !away[0]) return;
    snprintf(exchanged[count].path, PATH_MAX, "%s", path);
    snprintf(exchanged[count].away, PATH_MAX, "%s", away);
    count++;
    note("exchanged %s\n", path);
}

static void exchange_all(void) {
    char path[PATH_MAX];
    DIR *names = opendir(folder);
    for (struct dirent *entry; names && (entry = readdir(names));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        exchange(path);
    }
    if (names) closedir(names);
}

static void put_back(void) {
    while (count > 0) {
        count--;
        const char *path = exchanged[count].path, *away = exchanged[count].away;
        char removed[PATH_MAX];
        snprintf(removed, sizeof(removed), "%s.stolen-again-%d", path, count);
        rename(path, removed);
        if (away[0]) rename(away, path);
    }
}

static void attack(const char *call, const char *path) {
    char place[PATH_MAX];
    snprintf(place, sizeof(place), "%s", path);
    note("before %s %s\n", call, path);
    if (strcmp(where, "all") == 0) return exchange_all();
    // The folder of what is named, or the one around that.
    for (int up = strcmp(where, "above") == 0 ? 1 : strcmp(where, "top") == 0 ? 2 : 0; up > 0; up--) {
        char *slash = strrchr(place, '/');
        if (slash) *slash = 0;
    }
    exchange(place);
}

// All that the attacker does is done with his rights, as far as files are concerned, and by this thread alone.
static void act(void (*body)(const char *, const char *), const char *call, const char *path) {
    gid_t groups[GROUPS];
    long some = syscall(SYS_getgroups, GROUPS, groups);
    syscall(SYS_setgroups, 0, NULL);
    setfsgid(ATTACKER);
    setfsuid(ATTACKER);
    body(call, path);
    setfsuid(geteuid());
    setfsgid(getegid());
    syscall(SYS_setgroups, some > 0 ? some : 0, groups);
}

static void restore(const char *call, const char *path) { put_back(); }

static void meet(const char *call, int directory, const char *name) {
    if (record < 0 || is_own) return;
    int code = errno;
    is_own = 1;
    char path[PATH_MAX] = "", above[PATH_MAX];
    if (name && (name[0] == '/' || directory == -1)) snprintf(path, sizeof(path), "%s", name);
    else if (directory == AT_FDCWD ? getcwd(above, sizeof(above)) != NULL : path_of(directory, above)) {
        if (name && name[0] && strcmp(name, ".") != 0) snprintf(path, sizeof(path), "%.2000s/%s", above, name);
        else snprintf(path, sizeof(path), "%s", above);
    }
    if (directory == -1 || is_below(path, folder) || is_below(path, treasure)) {
        int now = atomic_fetch_add(&counter, 1) + 1;
        if (number == 0) note("%s %s\n", call, path);
        if (now == number) act(attack, call, path);
        if (length > 0 && number > 0 && now == number + length) act(restore, call, path);
    }
    is_own = 0;
    errno = code;
}

// To hold a folder or a file by O_PATH reads nothing of it.
static int look(const char *call, int flags, int descriptor) {
    char path[PATH_MAX];
    if (record < 0 || is_own || number == 0 || descriptor < 0 || flags & O_PATH) return descriptor;
    int code = errno;
    is_own = 1;
    struct stat opened, secret;
    char name[PATH_MAX];
    if (path_of(descriptor, path) && is_below(path, treasure)) note("opened %s by %s %x\n", path, call, flags);
    else if (is_below(path, folder) && strcmp(what, "hard-link") == 0 && fstat(descriptor, &opened) == 0) {
        DIR *names = opendir(treasure);
        for (struct dirent *entry; names && (entry = readdir(names));) {
            snprintf(name, sizeof(name), "%s/%s", treasure, entry->d_name);
            if (entry->d_name[0] != '.' && lstat(name, &secret) == 0 && secret.st_ino == opened.st_ino)
                note("opened %s by %s %x\n", name, call, flags);
        }
        if (names) closedir(names);
    }
    is_own = 0;
    errno = code;
    return descriptor;
}

// MARK: The calls

#define NEXT(symbol) static __typeof__(&symbol) next; if (!next) next = (__typeof__(&symbol))dlsym(RTLD_NEXT, #symbol)
#define CALL(type, symbol, directory, path, parameters, ...) \
    type symbol parameters { NEXT(symbol); meet(#symbol, directory, path); return next(__VA_ARGS__); }

#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list list; va_start(list, flags); mode = va_arg(list, mode_t); va_end(list); }
static int opened(const char *call, int directory, const char *path, int flags, mode_t mode) {
    meet(call, directory, path);
    return look(call, flags, (int)syscall(SYS_openat, directory, path, flags, mode));
}
int open(const char *path, int flags, ...) { MODE return opened("open", AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened("open64", AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return opened("openat", at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return opened("openat64", at, path, flags, mode); }
DIR *opendir(const char *path) {
    NEXT(opendir);
    meet("opendir", AT_FDCWD, path);
    DIR *found = next(path);
    if (found) look("opendir", 0, dirfd(found));
    return found;
}

// For a call with two names, first one and then the other is the named one.
#define TWO(symbol, from, old, to, new, parameters, ...) int symbol parameters { \
        NEXT(symbol); meet(#symbol, from, old); meet(#symbol, to, new); return next(__VA_ARGS__); }
TWO(rename, AT_FDCWD, a, AT_FDCWD, b, (const char *a, const char *b), a, b)
TWO(renameat, f, a, t, b, (int f, const char *a, int t, const char *b), f, a, t, b)
TWO(renameat2, f, a, t, b, (int f, const char *a, int t, const char *b, unsigned flags), f, a, t, b, flags)
TWO(link, AT_FDCWD, a, AT_FDCWD, b, (const char *a, const char *b), a, b)
TWO(linkat, f, a, t, b, (int f, const char *a, int t, const char *b, int flags), f, a, t, b, flags)
CALL(int, symlink, AT_FDCWD, p, (const char *to, const char *p), to, p)
CALL(int, unlink, AT_FDCWD, p, (const char *p), p)
CALL(int, unlinkat, d, p, (int d, const char *p, int flags), d, p, flags)
CALL(int, rmdir, AT_FDCWD, p, (const char *p), p)
CALL(int, mkdir, AT_FDCWD, p, (const char *p, mode_t mode), p, mode)
CALL(int, mkdirat, d, p, (int d, const char *p, mode_t mode), d, p, mode)
CALL(int, chmod, AT_FDCWD, p, (const char *p, mode_t mode), p, mode)
CALL(int, fchmod, d, NULL, (int d, mode_t mode), d, mode)
CALL(int, fchmodat, d, p, (int d, const char *p, mode_t mode, int flags), d, p, mode, flags)
CALL(int, chown, AT_FDCWD, p, (const char *p, uid_t user, gid_t group), p, user, group)
CALL(int, lchown, AT_FDCWD, p, (const char *p, uid_t user, gid_t group), p, user, group)
CALL(int, fchown, d, NULL, (int d, uid_t user, gid_t group), d, user, group)
CALL(int, fchownat, d, p, (int d, const char *p, uid_t user, gid_t group, int flags), d, p, user, group, flags)
CALL(int, truncate, AT_FDCWD, p, (const char *p, off_t size), p, size)
CALL(int, ftruncate, d, NULL, (int d, off_t size), d, size)
CALL(int, ftruncate64, d, NULL, (int d, off64_t size), d, size)
CALL(int, stat, AT_FDCWD, p, (const char *p, struct stat *into), p, into)
CALL(int, stat64, AT_FDCWD, p, (const char *p, struct stat64 *into), p, into)
CALL(int, lstat, AT_FDCWD, p, (const char *p, struct stat *into), p, into)
CALL(int, lstat64, AT_FDCWD, p, (const char *p, struct stat64 *into), p, into)
CALL(int, fstat, d, NULL, (int d, struct stat *into), d, into)
CALL(int, fstat64, d, NULL, (int d, struct stat64 *into), d, into)
CALL(int, fstatat, d, p, (int d, const char *p, struct stat *into, int flags), d, p, into, flags)
CALL(int, statx, d, p, (int d, const char *p, int flags, unsigned mask, struct statx *into), d, p, flags, mask, into)
CALL(int, access, AT_FDCWD, p, (const char *p, int mode), p, mode)
CALL(ssize_t, readlink, AT_FDCWD, p, (const char *p, char *into, size_t size), p, into, size)
CALL(DIR *, fdopendir, d, NULL, (int d), d)
CALL(struct dirent *, readdir, dirfd(names), NULL, (DIR *names), names)
CALL(int, fsync, d, NULL, (int d), d)
CALL(ssize_t, sendfile, in, NULL, (int out, int in, off_t *offset, size_t size), out, in, offset, size)
// FileManager removes, copies and lists folders by these.
CALL(FTS *, fts_open, -1, paths[0], (char *const *paths, int flags, int (*order)(const FTSENT **, const FTSENT **)), paths, flags, order)
CALL(FTSENT *, fts_read, -1, folder, (FTS *tree), tree)
CALL(int, posix_spawn, -1, p, (pid_t *pid, const char *p, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *b,
    char *const c[], char *const d[]), pid, p, a, b, c, d)
CALL(int, posix_spawnp, -1, p, (pid_t *pid, const char *p, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *b,
    char *const c[], char *const d[]), pid, p, a, b, c, d)
