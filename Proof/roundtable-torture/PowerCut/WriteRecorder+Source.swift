extension WriteRecorder {
    /// The library that victims preload (`ld.so(8)`), and that the campaign itself loads to take samples and to hash.
    ///
    /// It is compiled when a campaign begins, because no product may carry it. SQLite's unix VFS and the library call these functions of
    /// the C library directly. Each call that changes a file below the recorded folder runs under one lock of all processes together with
    /// the append to the log, so the order of the log is the order of the calls. A sync has two records, because a write that runs
    /// beside it need not be covered.
    static let source = #"""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <limits.h>
        #include <sched.h>
        #include <stdarg.h>
        #include <stdint.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/stat.h>
        #include <sys/uio.h>
        #include <time.h>
        #include <unistd.h>

        enum { WRITE = 1, TRUNCATE, SYNC_BEGIN, SYNC_END, CREATE, UNLINK, RENAME, LINK, ACKNOWLEDGE, MAPPED, UNSUPPORTED, SAMPLE };

        struct header { uint64_t magic, cursor, syncs; uint32_t lock, stolen; uint64_t root, unused[3]; };
        struct record { uint32_t size, kind; uint64_t inode, a, b; uint32_t length, pid; };

        static struct header *log_;
        static uint64_t capacity;
        static char folder[PATH_MAX];
        static size_t folder_length;
        static dev_t device;

        #define REAL(name) ((__typeof__(&name)) real(#name, __COUNTER__))
        static void *real(const char *name, int slot) {
            static void *found[128];
            if (!found[slot]) found[slot] = dlsym(RTLD_NEXT, name);
            return found[slot];
        }

        void powercut_attach(const char *path, const char *root) {
            struct stat status;
            int fd = (int) openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC);
            if (fd < 0 || fstat(fd, &status)) { perror(path); abort(); }
            struct header *map = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (map == MAP_FAILED) { perror(path); abort(); }
            close(fd);
            capacity = status.st_size;
            strcpy(folder, root);
            folder_length = strlen(folder);
            if (stat(folder, &status)) { perror(folder); abort(); }
            device = status.st_dev;
            map->root = status.st_ino;
            log_ = map;
        }

        __attribute__((constructor)) static void begin(void) {
            const char *path = getenv("ROUNDTABLE_POWERCUT_LOG"), *root = getenv("ROUNDTABLE_POWERCUT_FOLDER");
            if (path && root) powercut_attach(path, root);
        }

        static void lock(void) {
            struct timespec start = { 0, 0 }, now;
            uint32_t expected = 0;
            for (unsigned long tries = 0; !__atomic_compare_exchange_n(&log_->lock, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); tries++) {
                expected = 0;
                sched_yield();
                if (tries % 1000 != 999) continue;
                clock_gettime(CLOCK_MONOTONIC, &now);
                if (!start.tv_sec) start = now;
                // A process that ended inside a call has left the lock. The trace is then refused.
                if (now.tv_sec > start.tv_sec + 20) { log_->stolen = 1; return; }
            }
        }
        static void unlock(void) { __atomic_store_n(&log_->lock, 0, __ATOMIC_RELEASE); }

        static void append(uint32_t kind, uint64_t inode, uint64_t a, uint64_t b, const void *data, size_t length) {
            size_t size = (sizeof(struct record) + length + 7) / 8 * 8;
            if (log_->cursor + size > capacity) { fprintf(stderr, "the log of the recorder is full\n"); abort(); }
            struct record *record = (struct record *) ((char *) log_ + log_->cursor);
            *record = (struct record) { (uint32_t) size, kind, inode, a, b, (uint32_t) length, (uint32_t) getpid() };
            memcpy(record + 1, data, length);
            __atomic_store_n(&log_->cursor, log_->cursor + size, __ATOMIC_RELEASE);
        }

        static int is_below(const char *path) {
            return !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || !path[folder_length]);
        }

        // The inode of a descriptor below the folder; 0 for all others.
        static uint64_t inode_of(int fd) {
            static struct { uint64_t inode; int known; } table[4096];
            struct stat status;
            if (!log_ || fstat(fd, &status) || status.st_dev != device || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) return 0;
            if (fd < 4096 && table[fd].inode == status.st_ino) return table[fd].known ? status.st_ino : 0;
            char link[64], path[PATH_MAX];
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t length = readlink(link, path, sizeof path - 1);
            if (length < 0) return 0;
            path[length] = 0;
            int known = is_below(path);
            if (fd < 4096) { table[fd].known = known; table[fd].inode = status.st_ino; }
            return known ? status.st_ino : 0;
        }

        // The inode of the folder that a path is in, and its last name; 0 if that is not below the recorded folder.
        static uint64_t place_of(int at, const char *path, char *name) {
            char whole[PATH_MAX * 2], link[64], real_folder[PATH_MAX];
            if (!log_) return 0;
            whole[0] = 0;
            if (path[0] != '/') {
                snprintf(link, sizeof link, "/proc/self/fd/%d", at);
                ssize_t length = at == AT_FDCWD ? (getcwd(whole, PATH_MAX) ? (ssize_t) strlen(whole) : -1) : readlink(link, whole, PATH_MAX - 1);
                if (length < 0) return 0;
                whole[length] = '/';
                whole[length + 1] = 0;
            }
            strncat(whole, path, PATH_MAX - 1);
            char *slash = strrchr(whole, '/');
            if (!slash) return 0;
            strncpy(name, slash + 1, NAME_MAX);
            name[NAME_MAX] = 0;
            *slash = 0;
            struct stat status;
            if (!realpath(whole, real_folder) || !is_below(real_folder) || stat(real_folder, &status)) return 0;
            return status.st_ino;
        }

        static uint64_t inode_at(int at, const char *path) {
            struct stat status;
            return fstatat(at, path, &status, AT_SYMLINK_NOFOLLOW) ? 0 : status.st_ino;
        }

        static int opened(int at, const char *path, int flags, mode_t mode, int (*call)(int, const char *, int, ...)) {
            char name[NAME_MAX + 1];
            uint64_t parent = flags & (O_CREAT | O_TRUNC) ? place_of(at, path, name) : 0;
            if (!parent) return call(at, path, flags, mode);
            lock();
            uint64_t before = inode_at(at, path);
            int fd = call(at, path, flags, mode), code = errno;
            struct stat status;
            if (fd >= 0 && !fstat(fd, &status)) {
                if (!before) append(CREATE, parent, status.st_ino, 0, name, strlen(name));
                else if (flags & O_TRUNC) append(TRUNCATE, status.st_ino, 0, 0, NULL, 0);
            }
            unlock();
            errno = code;
            return fd;
        }
        #define MODE(last) va_list list; va_start(list, last); mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; va_end(list)
        int open(const char *path, int flags, ...) { MODE(flags); return opened(AT_FDCWD, path, flags, mode, REAL(openat)); }
        int open64(const char *path, int flags, ...) { MODE(flags); return opened(AT_FDCWD, path, flags, mode, REAL(openat)); }
        int openat(int at, const char *path, int flags, ...) { MODE(flags); return opened(at, path, flags, mode, REAL(openat)); }
        int openat64(int at, const char *path, int flags, ...) { MODE(flags); return opened(at, path, flags, mode, REAL(openat)); }
        int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode, REAL(openat)); }

        ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
            uint64_t inode = inode_of(fd);
            if (!inode) return REAL(pwrite64)(fd, bytes, count, offset);
            lock();
            ssize_t result = REAL(pwrite64)(fd, bytes, count, offset);
            int code = errno;
            if (result > 0) append(WRITE, inode, (uint64_t) offset, 0, bytes, (size_t) result);
            unlock();
            errno = code;
            return result;
        }
        ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) { return pwrite64(fd, bytes, count, offset); }
        ssize_t write(int fd, const void *bytes, size_t count) {
            uint64_t inode = inode_of(fd);
            if (!inode) return REAL(write)(fd, bytes, count);
            lock();
            ssize_t result = REAL(write)(fd, bytes, count);
            int code = errno;
            // After the call, the position is the end of what was written, also with O_APPEND.
            if (result > 0) append(WRITE, inode, (uint64_t) (lseek(fd, 0, SEEK_CUR) - result), 0, bytes, (size_t) result);
            unlock();
            errno = code;
            return result;
        }
        static void unsupported(int fd, const char *name) {
            uint64_t inode = inode_of(fd);
            if (!inode) return;
            lock();
            append(UNSUPPORTED, inode, 0, 0, name, strlen(name));
            unlock();
        }
        ssize_t writev(int fd, const struct iovec *parts, int count) { unsupported(fd, "writev"); return REAL(writev)(fd, parts, count); }
        ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { unsupported(fd, "pwritev"); return REAL(pwritev)(fd, parts, count, offset); }
        ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) { unsupported(fd, "pwritev64"); return REAL(pwritev64)(fd, parts, count, offset); }
        int fallocate(int fd, int mode, off_t offset, off_t length) { unsupported(fd, "fallocate"); return REAL(fallocate)(fd, mode, offset, length); }
        int fallocate64(int fd, int mode, off64_t offset, off64_t length) { unsupported(fd, "fallocate64"); return REAL(fallocate64)(fd, mode, offset, length); }
        int posix_fallocate(int fd, off_t offset, off_t length) { unsupported(fd, "posix_fallocate"); return REAL(posix_fallocate)(fd, offset, length); }
        int posix_fallocate64(int fd, off64_t offset, off64_t length) { unsupported(fd, "posix_fallocate64"); return REAL(posix_fallocate64)(fd, offset, length); }
        ssize_t copy_file_range(int from, off64_t *a, int to, off64_t *b, size_t count, unsigned flags) {
            unsupported(to, "copy_file_range");
            return REAL(copy_file_range)(from, a, to, b, count, flags);
        }

        int ftruncate64(int fd, off64_t length) {
            uint64_t inode = inode_of(fd);
            if (!inode) return REAL(ftruncate64)(fd, length);
            lock();
            int result = REAL(ftruncate64)(fd, length), code = errno;
            if (!result) append(TRUNCATE, inode, (uint64_t) length, 0, NULL, 0);
            unlock();
            errno = code;
            return result;
        }
        int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

        static int synced(int fd, int (*call)(int)) {
            uint64_t inode = inode_of(fd);
            if (!inode) return call(fd);
            lock();
            uint64_t number = ++log_->syncs;
            append(SYNC_BEGIN, inode, number, 0, NULL, 0);
            unlock();
            int result = call(fd), code = errno;
            lock();
            if (!result) append(SYNC_END, inode, number, 0, NULL, 0);
            unlock();
            errno = code;
            return result;
        }
        int fsync(int fd) { return synced(fd, REAL(fsync)); }
        int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

        static int unlinked(int at, const char *path, int flags) {
            char name[NAME_MAX + 1];
            uint64_t parent = place_of(at, path, name);
            if (!parent) return REAL(unlinkat)(at, path, flags);
            lock();
            int result = REAL(unlinkat)(at, path, flags), code = errno;
            if (!result) append(UNLINK, parent, 0, 0, name, strlen(name));
            unlock();
            errno = code;
            return result;
        }
        int unlinkat(int at, const char *path, int flags) { return unlinked(at, path, flags); }
        int unlink(const char *path) { return unlinked(AT_FDCWD, path, 0); }
        int rmdir(const char *path) { return unlinked(AT_FDCWD, path, AT_REMOVEDIR); }

        int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
            char a[NAME_MAX + 1], b[NAME_MAX + 1], both[2 * NAME_MAX + 2];
            uint64_t source = place_of(from, old, a), target = place_of(to, new, b);
            if (!source || !target) return REAL(renameat2)(from, old, to, new, flags);
            lock();
            // A rename that replaces nothing is a rename; an exchange is not known.
            if (flags & ~RENAME_NOREPLACE) append(UNSUPPORTED, target, 0, 0, "renameat2", 9);
            uint64_t inode = inode_at(from, old);
            int result = REAL(renameat2)(from, old, to, new, flags), code = errno;
            size_t length = strlen(a) + 1 + strlen(b);
            memcpy(both, a, strlen(a) + 1);
            memcpy(both + strlen(a) + 1, b, strlen(b));
            if (!result) append(RENAME, target, inode, source, both, length);
            unlock();
            errno = code;
            return result;
        }
        int renameat(int from, const char *old, int to, const char *new) { return renameat2(from, old, to, new, 0); }
        int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

        int linkat(int from, const char *old, int to, const char *new, int flags) {
            char name[NAME_MAX + 1];
            uint64_t parent = place_of(to, new, name);
            if (!parent) return REAL(linkat)(from, old, to, new, flags);
            lock();
            int result = REAL(linkat)(from, old, to, new, flags), code = errno;
            if (!result) append(LINK, parent, inode_at(to, new), 0, name, strlen(name));
            unlock();
            errno = code;
            return result;
        }
        int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

        int mkdirat(int at, const char *path, mode_t mode) {
            char name[NAME_MAX + 1];
            uint64_t parent = place_of(at, path, name);
            if (!parent) return REAL(mkdirat)(at, path, mode);
            lock();
            int result = REAL(mkdirat)(at, path, mode), code = errno;
            if (!result) append(CREATE, parent, inode_at(at, path), 1, name, strlen(name));
            unlock();
            errno = code;
            return result;
        }
        int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

        void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset) {
            uint64_t inode = fd >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE) ? inode_of(fd) : 0;
            if (inode) { lock(); append(MAPPED, inode, 0, 0, NULL, 0); unlock(); }
            return REAL(mmap64)(address, length, protection, flags, fd, offset);
        }
        void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
            return mmap64(address, length, protection, flags, fd, offset);
        }

        void powercut_acknowledge(uint64_t kind, uint64_t number) {
            lock();
            append(ACKNOWLEDGE, 0, kind, number, NULL, 0);
            unlock();
        }

        // Adds what a mapped file holds now. Nothing in it is ordered: processes write by stores.
        void powercut_sample(const char *path) {
            static char bytes[4 << 20];
            struct stat status;
            int fd = REAL(openat)(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
            if (fd < 0) return;
            if (!fstat(fd, &status)) {
                ssize_t count = pread(fd, bytes, sizeof bytes, 0);
                if (count > 0) { lock(); append(SAMPLE, status.st_ino, 0, 0, bytes, (size_t) count); unlock(); }
            }
            close(fd);
        }

        uint64_t powercut_hash(const void *bytes, size_t count, uint64_t seed) {
            uint64_t hash = seed ^ (count * 0x9E3779B97F4A7C15u);
            const unsigned char *next = bytes;
            for (; count >= 8; count -= 8, next += 8) {
                uint64_t word;
                memcpy(&word, next, 8);
                hash = (hash ^ word) * 0x9FB21C651E98DF25u;
                hash ^= hash >> 32;
            }
            for (; count; count--, next++) hash = (hash ^ *next) * 0x100000001B3u;
            return hash ^ hash >> 29;
        }
        """#
}
