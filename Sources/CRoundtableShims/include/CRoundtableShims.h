// Functions that Swift cannot call or implement. Each shim says why it exists and when it can go.

#ifndef ROUNDTABLE_SHIMS_H
#define ROUNDTABLE_SHIMS_H

#include <stddef.h>
#include <stdint.h>

// MARK: Futex
//
// Why: glibc has no futex function, and `syscall` is variadic, which Swift does not import. On Darwin the equivalent is
// `os_sync_wait_on_address`, whose header needs availability checks that C expresses. Can go when the platforms' Swift
// modules export both.

/// Sleeps while `*word == expected`, at most `timeout_ns`. Works between processes, and on read-only mappings.
/// Returns 0 when woken (or spuriously), else an errno: EAGAIN (the word differs), ETIMEDOUT, EINTR, EFAULT.
int rt_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns);

/// Wakes up to `count` waiters. Returns how many, or -errno. On Darwin, a `count` other than 1 wakes all waiters, and the result is 1 if
/// there was any.
int rt_futex_wake(const uint32_t *word, int count);

// MARK: Guarded mappings
//
// Why: access to a shared mapping beyond the end of a truncated file raises SIGBUS, and a signal handler cannot be
// written in Swift (it may not allocate or take locks). Can go if a kernel offers mappings that fault into an error.

enum { RT_GUARD_CAPACITY = 512 };

/// Registers a mapping. A SIGBUS in it replaces it by private zero pages and marks it lost, instead of ending the process. A SIGBUS
/// elsewhere goes to the previous handler. Returns an index, or -1 when full.
///
/// A handler that is installed later replaces this one, unless it calls it. On Apple's systems, a crash reporter that handles Mach exceptions
/// gets the fault before any signal handler, reports it as a crash, and may end the process.
int rt_guard_add(void *base, size_t length);
/// Unregisters the mapping; call it before `munmap`.
void rt_guard_remove(int index);
/// Whether the mapping was lost.
int rt_guard_is_lost(int index);
/// Whether an instruction has caused a SIGBUS with this code (`si_code`), and no process has sent it.
int rt_guard_is_fault(int code);

// MARK: Threads
//
// Why: glibc declares `pthread_setname_np` only with _GNU_SOURCE, which Swift's module of it is built without, and the one of Darwin has
// other parameters. Can go when Swift exports it.

/// Names the calling thread. At most 15 bytes.
void rt_name_thread(const char *name);

// MARK: Signals
//
// Why: `struct sigaction` has a union that Swift sees differently on each system, and signal(3) cannot read an action without changing it.
// Can never go.

/// Whether the action of a signal is to ignore it.
int rt_signal_is_ignored(int signal_number);

// MARK: Stop signals
//
// Why: a signal handler cannot be written in Swift (it may not allocate or take locks), and `struct sigaction` has a union
// that Swift sees differently on each system. Can never go.

/// Installs handlers of SIGTSTP, SIGTTIN, SIGTTOU and SIGCONT. The calling thread becomes the watcher: it must not exit, is the only one to
/// call the functions below, and blocks the first three signals. A thread that takes one of these sends it on to the watcher. There it is
/// pending until SIGCONT makes the system discard it, or `rt_stop` lets it through. So the system itself records whether the process is
/// to stop. At each signal, a byte is written to `descriptor`, which must be non-blocking.
///
/// A stop signal that is ignored stays ignored. A previous handler of SIGCONT is called. In a child after fork, the previous handlers
/// are restored. Call it once in a process. Returns how many stop signals are handled, or -errno.
///
/// A second thread keeps the four signals unblocked, so that they arrive even if all other threads block them: a process inherits the mask
/// of the thread that spawned it, and threads of libdispatch block nearly all signals.
int rt_stop_signals_handle(int descriptor);

/// Whether a stop signal has come, and no SIGCONT since.
int rt_stop_signals_are_pending(void);

/// The time of the last stop signal, in ns of the monotonic clock; 0 when it was already taken, or no signal came.
uint64_t rt_stop_signals_take_time(void);

/// Lets a pending stop signal take the action that it had before it was handled, which is to stop the process. Returns when the process
/// continues; immediately when no signal is pending, or the system does not stop the process.
void rt_stop(void);

// MARK: Fork
//
// Why: `pthread_atfork` takes C function pointers that run in the child of a process with threads, where Swift code may
// not run. Can never go: this is what the function is for.

/// The number of forks between the process that loaded the program and the calling process.
uint32_t rt_fork_generation(void);

/// Registers a connection of this process to a file. Returns the generation, for `rt_open_file_remove`.
uint32_t rt_open_file_add(uint64_t device, uint64_t inode);
/// Unregisters a connection that was registered in this generation.
void rt_open_file_remove(uint64_t device, uint64_t inode, uint32_t generation);
/// Whether a connection to the file was open when an ancestor of this process forked, and was not closed in this process since. SQLite's
/// table of open files then shows this process locks that only its ancestor holds.
int rt_open_file_is_inherited(uint64_t device, uint64_t inode);

/// Registers the descriptor, so that it is closed in every child after a fork, and a lock of its open file description ends with this
/// process. Returns an index, or -1 when full.
int rt_close_in_child(int descriptor);
/// Unregisters the descriptor; call it before `close`.
void rt_keep_in_child(int index);

// MARK: File systems
//
// Why: Swift's Glibc module does not include <sys/vfs.h>, and declares statx(2) only with _GNU_SOURCE, which it is built without. Can go when
// it exports both.

#if defined(__linux__)
/// A file at a name, which is not followed if it is a symbolic link.
struct rt_named_file {
    uint64_t device, inode;
    /// When the file was created, in ns since 1970; 0 where the system does not know it.
    int64_t birth;
};

/// Inspects the file at `path` without opening it. Returns 0, or -1 with errno.
int32_t rt_named_file(const char *path, struct rt_named_file *file);

/// The magic number of the file system that holds `path` (statfs(2)), or -1 with errno.
int64_t rt_file_system_type(const char *path);

/// The number of the mount that holds `path` (statx(2), `STATX_MNT_ID`, Linux 5.8), 0 when the kernel does not report it, or -1 with errno.
int64_t rt_mount_number(const char *path);
#endif

// MARK: Thread-local pointer
//
// Why: Swift has no thread-local variables that cost one load. Can go when it has.

void *rt_thread_local_get(void);
void rt_thread_local_set(void *value);

// MARK: Erasing
//
// Why: a compiler removes stores to memory that is freed next. Can go when Swift can mark such stores as required.

/// Writes zeros over `count` bytes, even if the bytes are never read again.
static inline void rt_erase(void *bytes, size_t count) {
    volatile unsigned char *byte = (volatile unsigned char *)bytes;
    while (count--) *byte++ = 0;
}

// MARK: The default log
//
// Why: the tests of this package turn it off before their first line of Swift runs, which only a constructor in C can do. Can go when
// swift-testing has a hook that runs before all tests.

/// Whether events of a database whose program has not said where to log them are logged nowhere; 0 unless the function below was called.
int rt_default_log_is_off(void);
void rt_set_default_log_off(int is_off);

// MARK: Symbols
//
// Why: only at run time is it known whether the library that has one function has another one, too. SQLCipher replaces SQLite and has
// additional functions. Glibc's module does not have `dladdr`. Can go when Swift has weak imports on all systems.

/// The address of the function `name` in the same library or program that has `neighbour`; NULL when it has none. A function of another
/// library, such as a second SQLite in the process, is not returned.
void *rt_symbol_beside(const void *neighbour, const char *name);

// MARK: SQLite
//
// Why: `sqlite3_db_config` is variadic, which Swift does not import. It is inline, so that its callers link SQLite, and this
// module does not. Can go when SQLite has a pragma for it.

struct sqlite3;
int sqlite3_db_config(struct sqlite3 *connection, int operation, ...);

/// Sets whether the connection checkpoints when it closes and is the last one (SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE). SQLite takes an
/// exclusive lock on the database file for that. Returns SQLite's code.
static inline int rt_checkpoint_on_close(struct sqlite3 *connection, int is_on) {
    return sqlite3_db_config(connection, 1006, !is_on, (int *)0);
}

/// Sets whether the connection enforces foreign keys (SQLITE_DBCONFIG_ENABLE_FKEY), which compiles no statement, so that it is not
/// interrupted. Returns whether it did before.
static inline int rt_enforce_foreign_keys(struct sqlite3 *connection, int is_on) {
    int was_on = 0;
    sqlite3_db_config(connection, 1002, -1, &was_on);
    sqlite3_db_config(connection, 1002, is_on, (int *)0);
    return was_on;
}

#endif
