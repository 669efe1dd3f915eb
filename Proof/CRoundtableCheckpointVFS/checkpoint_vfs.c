#include "rt_checkpoint_vfs.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

// An open file. The object of the underlying VFS follows it in memory.
typedef struct {
    sqlite3_file base;
    rt_vfs_file kind;
    /// For the main file: the number of read mark locks that are held through it.
    int reads;
} File;

static sqlite3_vfs *underneath;
static sqlite3_vfs vfs;

static _Atomic(rt_vfs_watcher) current_watcher;
static rt_vfs_scope current_scope;
static void *current_context;
static atomic_bool is_watcher_running;
/// The operations that this thread is performing.
enum { CHECKPOINT = 1, WRITE_WITHOUT_READ = 2 };
static _Thread_local int within;

static sqlite3_file *real(sqlite3_file *file) { return (sqlite3_file *)((File *)file + 1); }

#define REAL(file) real(file)->pMethods

/// Sets nBackfill, as a checkpoint would that sets it before it writes the pages (<https://www.sqlite.org/walformat.html>).
static void count_all_as_copied(sqlite3_file *file) {
    enum { REGION_SIZE = 32768, MX_FRAME = 16, BACKFILL = 96 };
    void volatile *page = NULL;
    if (REAL(file)->xShmMap(real(file), 0, REGION_SIZE, 0, &page) != SQLITE_OK || !page) return;
    memcpy((char *)page + BACKFILL, (char *)page + MX_FRAME, sizeof(unsigned));
}

static rt_vfs_order tell(sqlite3_file *file, rt_vfs_call call) {
    rt_vfs_watcher watcher = atomic_load(&current_watcher);
    int is_watched = current_scope == RT_VFS_STEPS ? within : within & CHECKPOINT;
    if (!is_watched || !watcher || atomic_exchange(&is_watcher_running, 1)) return RT_VFS_GO_ON;
    // The checkpoints of the watcher itself are not part of this one.
    int outer = within;
    within = 0;
    rt_vfs_order order = watcher(current_context, ((File *)file)->kind, call);
    within = outer;
    atomic_store(&is_watcher_running, 0);
    if (order == RT_VFS_COUNT_ALL_AS_COPIED) count_all_as_copied(file);
    return order;
}

/// Returns the result of a call, unless the process must die after it.
static int after(rt_vfs_order order, int result) {
    if (order == RT_VFS_DIE_AFTER || order == RT_VFS_DIE_HALFWAY) raise(SIGKILL);
    return result;
}

static int file_close(sqlite3_file *file) { return REAL(file)->xClose(real(file)); }

static int file_read(sqlite3_file *file, void *buffer, int count, sqlite3_int64 offset) {
    rt_vfs_order order = tell(file, RT_VFS_READ);
    return after(order, REAL(file)->xRead(real(file), buffer, count, offset));
}

static int file_write(sqlite3_file *file, const void *buffer, int count, sqlite3_int64 offset) {
    rt_vfs_order order = tell(file, RT_VFS_WRITE);
    if (order == RT_VFS_DIE_HALFWAY) count /= 2;
    return after(order, REAL(file)->xWrite(real(file), buffer, count, offset));
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size) {
    rt_vfs_order order = tell(file, RT_VFS_TRUNCATE);
    return after(order, REAL(file)->xTruncate(real(file), size));
}

static int file_sync(sqlite3_file *file, int flags) {
    rt_vfs_order order = tell(file, RT_VFS_SYNC);
    return after(order, REAL(file)->xSync(real(file), flags));
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size) {
    rt_vfs_order order = tell(file, RT_VFS_FILE_SIZE);
    return after(order, REAL(file)->xFileSize(real(file), size));
}

static int file_lock(sqlite3_file *file, int lock) { return REAL(file)->xLock(real(file), lock); }

static int file_unlock(sqlite3_file *file, int lock) { return REAL(file)->xUnlock(real(file), lock); }

static int file_check_reserved_lock(sqlite3_file *file, int *result) {
    return REAL(file)->xCheckReservedLock(real(file), result);
}

static int file_control(sqlite3_file *file, int operation, void *argument) {
    rt_vfs_order order = tell(file, RT_VFS_FILE_CONTROL);
    return after(order, REAL(file)->xFileControl(real(file), operation, argument));
}

static int file_sector_size(sqlite3_file *file) { return REAL(file)->xSectorSize(real(file)); }

static int file_device_characteristics(sqlite3_file *file) {
    return REAL(file)->xDeviceCharacteristics(real(file));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **result) {
    rt_vfs_order order = tell(file, RT_VFS_SHM_MAP);
    return after(order, REAL(file)->xShmMap(real(file), page, size, extend, result));
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags) {
    enum { WRITE = 0, CKPT = 1, READ_0 = 3 };
    File *opened = (File *)file;
    int takes = flags & SQLITE_SHM_LOCK, is_exclusive = flags & SQLITE_SHM_EXCLUSIVE;
    int entered = !is_exclusive || count != 1 ? 0 : offset == CKPT ? CHECKPOINT : offset == WRITE ? WRITE_WITHOUT_READ : 0;
    // A write transaction has begun to read before it takes the WRITE lock.
    if (takes && !(entered == WRITE_WITHOUT_READ && opened->reads > 0)) within |= entered;
    rt_vfs_order order = tell(file, RT_VFS_SHM_LOCK);
    int code = after(order, REAL(file)->xShmLock(real(file), offset, count, flags));
    if (!takes || code != SQLITE_OK) within &= ~entered;
    if (!is_exclusive && offset >= READ_0 && code == SQLITE_OK) opened->reads += takes ? 1 : -1;
    return code;
}

static void file_shm_barrier(sqlite3_file *file) {
    rt_vfs_order order = tell(file, RT_VFS_SHM_BARRIER);
    REAL(file)->xShmBarrier(real(file));
    after(order, SQLITE_OK);
}

static int file_shm_unmap(sqlite3_file *file, int delete) { return REAL(file)->xShmUnmap(real(file), delete); }

static int file_fetch(sqlite3_file *file, sqlite3_int64 offset, int count, void **result) {
    rt_vfs_order order = tell(file, RT_VFS_FETCH);
    return after(order, REAL(file)->xFetch(real(file), offset, count, result));
}

static int file_unfetch(sqlite3_file *file, sqlite3_int64 offset, void *page) {
    rt_vfs_order order = tell(file, RT_VFS_UNFETCH);
    return after(order, REAL(file)->xUnfetch(real(file), offset, page));
}

#define METHODS(version)                                                                                          \
    {                                                                                                             \
        version, file_close, file_read, file_write, file_truncate, file_sync, file_size, file_lock, file_unlock,  \
            file_check_reserved_lock, file_control, file_sector_size, file_device_characteristics, file_shm_map,  \
            file_shm_lock, file_shm_barrier, file_shm_unmap, file_fetch, file_unfetch                             \
    }

// SQLite uses only the methods that the version includes.
static const sqlite3_io_methods methods[] = {METHODS(1), METHODS(2), METHODS(3)};

static int vfs_open(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags, int *result) {
    (void)self;
    File *opened = (File *)file;
    memset(opened, 0, sizeof(File));
    opened->kind = flags & SQLITE_OPEN_MAIN_DB ? RT_VFS_MAIN_FILE
                   : flags & SQLITE_OPEN_WAL   ? RT_VFS_WAL_FILE
                                               : RT_VFS_OTHER_FILE;
    int code = underneath->xOpen(underneath, name, real(file), flags, result);
    // SQLite closes a file that has methods, even if opening it failed.
    if (REAL(file)) {
        int version = REAL(file)->iVersion;
        opened->base.pMethods = &methods[version < 1 ? 0 : version > 3 ? 2 : version - 1];
    }
    return code;
}

// While the watcher runs, sleeping is useless, because the connection that it would wait for waits for the watcher.
static int vfs_sleep(sqlite3_vfs *self, int microseconds) {
    (void)self;
    return atomic_load(&is_watcher_running) ? microseconds : underneath->xSleep(underneath, microseconds);
}

int rt_checkpoint_vfs_register(const char *name, int make_default) {
    if (underneath) return SQLITE_OK;
    sqlite3_vfs *found = sqlite3_vfs_find(NULL);
    if (!found) return SQLITE_ERROR;
    // The functions of the underlying VFS do everything but opening and sleeping. They receive this object, which is a copy, because
    // the VFSes of unix and Windows keep in it what they need.
    vfs = *found;
    vfs.pNext = NULL;
    vfs.zName = name;
    vfs.szOsFile = (int)sizeof(File) + found->szOsFile;
    vfs.xOpen = vfs_open;
    vfs.xSleep = vfs_sleep;
    underneath = found;
    return sqlite3_vfs_register(&vfs, make_default);
}

void rt_checkpoint_vfs_watch(rt_vfs_scope scope, rt_vfs_watcher watcher, void *context) {
    atomic_store(&current_watcher, NULL);
    current_scope = scope;
    current_context = context;
    atomic_store(&current_watcher, watcher);
}
