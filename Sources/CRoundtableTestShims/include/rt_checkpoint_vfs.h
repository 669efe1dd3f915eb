#ifndef ROUNDTABLE_CHECKPOINT_VFS_H
#define ROUNDTABLE_CHECKPOINT_VFS_H

/// Which file of a database a call is about. The wal-index has no file object of its own: its calls go to the main file's.
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

/// What the VFS does with a call. To die is to be killed with SIGKILL, which leaves what a crash leaves.
typedef enum {
    RT_VFS_GO_ON,
    /// Of a write: dies when half of it is written; of another: as after.
    RT_VFS_DIE_HALFWAY,
    RT_VFS_DIE_AFTER,
    /// A lie to the others, to see that a test finds it: says in the wal-index that all is copied, and goes on. For calls to the main file.
    RT_VFS_COUNT_ALL_AS_COPIED,
} rt_vfs_order;

/// Which calls are told.
typedef enum {
    /// Those of a checkpoint: from the request for SQLite's CKPT lock to its release, both included.
    RT_VFS_CHECKPOINTS,
    /// Also those that are made with the WRITE lock outside of transactions: of a checkpoint that keeps writers out for longer than SQLite does,
    /// and of what is done to the WAL's file beside checkpoints.
    RT_VFS_STEPS,
} rt_vfs_scope;

typedef rt_vfs_order (*rt_vfs_watcher)(void *context, rt_vfs_file file, rt_vfs_call call);

/// Registers a VFS of that name, once, which passes everything on to the one that is the default until then, and makes it the
/// default if asked. Returns a result code of SQLite.
///
/// Why: between two system calls of a checkpoint there is no other place where another connection can be made to act at a
/// chosen moment; without one, SQLite's WAL-reset bug takes luck to meet. In C, because SQLite calls these functions with
/// structures that they extend. Can go when nobody uses a SQLite with that bug (before 3.51.3), and nobody wants to know
/// what else a checkpoint bears.
int rt_checkpoint_vfs_register(const char *name, int make_default);

/// Has `watcher` called before each call of that scope that is made through this VFS, in whichever thread; NULL: no more.
///
/// What the watcher does itself is not watched, and while it runs, SQLite does not sleep between its attempts to get a lock: the checkpoint
/// stands still. To be changed while no checkpoint is under way.
void rt_checkpoint_vfs_watch(rt_vfs_scope scope, rt_vfs_watcher watcher, void *context);

#endif
