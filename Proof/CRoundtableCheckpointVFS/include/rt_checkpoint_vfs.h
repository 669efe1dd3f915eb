#ifndef ROUNDTABLE_CHECKPOINT_VFS_H
#define ROUNDTABLE_CHECKPOINT_VFS_H

/// The file of a database that a call is made on. The wal-index has no file object: its calls are made on the main file's object.
typedef enum { RT_VFS_MAIN_FILE, RT_VFS_WAL_FILE, RT_VFS_OTHER_FILE } rt_vfs_file;

/// The methods of `sqlite3_io_methods` that a checkpoint calls.
typedef enum {
    RT_VFS_READ,
    RT_VFS_WRITE,
    RT_VFS_TRUNCATE,
    RT_VFS_SYNC,
    RT_VFS_FILE_SIZE,
    RT_VFS_FILE_CONTROL,
    RT_VFS_SHM_MAP,
    RT_VFS_SHM_LOCK,
    RT_VFS_SHM_BARRIER,
    RT_VFS_FETCH,
    RT_VFS_UNFETCH,
} rt_vfs_call;

/// What the VFS does with a call. A process dies by SIGKILL, which leaves the same state as a crash.
typedef enum {
    RT_VFS_GO_ON,
    /// For a write: the process dies when half of it is written. For any other call: the process dies after it.
    RT_VFS_DIE_HALFWAY,
    RT_VFS_DIE_AFTER,
    /// Marks all pages as copied in the wal-index, although they are not, and continues. It checks that a test detects such a
    /// defect. For calls on the main file.
    RT_VFS_COUNT_ALL_AS_COPIED,
} rt_vfs_order;

/// The calls that are watched.
typedef enum {
    /// The calls of a checkpoint, from the request for SQLite's CKPT lock to its release, both included.
    RT_VFS_CHECKPOINTS,
    /// Also the calls that are made with the WRITE lock outside of transactions. These belong to checkpoints that exclude writers for
    /// longer than SQLite does, and to other work on the WAL file.
    RT_VFS_STEPS,
} rt_vfs_scope;

typedef rt_vfs_order (*rt_vfs_watcher)(void *context, rt_vfs_file file, rt_vfs_call call);

/// Registers a VFS of this name that forwards every call to the present default VFS, and makes it the default if asked. Only the first
/// call registers it. Returns a result code of SQLite.
///
/// Why: only a VFS lets another connection act at a chosen moment between two system calls of a checkpoint. Without it, a test meets
/// SQLite's WAL-reset bug only by luck. It is written in C, because SQLite calls these functions with structures that they extend.
/// It can go when no program uses a SQLite with that bug (before 3.51.3), and no test interrupts checkpoints.
int rt_checkpoint_vfs_register(const char *name, int make_default);

/// Makes this VFS call `watcher` before each call of that scope, in any thread; NULL ends this.
///
/// The calls of the watcher itself are not watched. While it runs, SQLite does not sleep between its attempts to acquire a lock, because
/// the checkpoint cannot proceed. The watcher must not be changed during a checkpoint.
void rt_checkpoint_vfs_watch(rt_vfs_scope scope, rt_vfs_watcher watcher, void *context);

#endif
