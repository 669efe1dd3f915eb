// What Swift cannot call. Each shim says why it exists and when it can go.

#ifndef ROUNDTABLE_SHIMS_H
#define ROUNDTABLE_SHIMS_H

#include <stddef.h>
#include <stdint.h>

// MARK: Futex
//
// Why: glibc has no futex function, and `syscall` is variadic, which Swift does not import. On Darwin the equivalent is
// `os_sync_wait_on_address`, whose header needs availability checks that C expresses. Can go when the platforms' Swift
// modules export both.

/// Sleeps while `*word == expected`, at most `timeout_ns`. Shared between processes; works on read-only mappings.
/// Returns 0 when woken (or spuriously), else an errno: EAGAIN (the word differs), ETIMEDOUT, EINTR, EFAULT.
int rt_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns);

/// Wakes up to `count` waiters. Returns how many, or -errno.
int rt_futex_wake(const uint32_t *word, int count);

// MARK: Guarded mappings
//
// Why: a shared mapping of a file that somebody truncates raises SIGBUS on access, and a signal handler cannot be
// written in Swift (it may not allocate or take locks). Can go if a kernel offers mappings that fault into an error.

enum { RT_GUARD_CAPACITY = 512 };

/// Registers a mapping. A page fault in it (SIGBUS) replaces it by private zero pages and marks it lost, instead of
/// ending the process; faults elsewhere go to the handler that was there before. Returns an index, or -1 when full.
int rt_guard_add(void *base, size_t length);
/// Forgets the mapping; call it before `munmap`.
void rt_guard_remove(int index);
/// Whether the mapping was lost.
int rt_guard_is_lost(int index);

// MARK: Stop signals
//
// Why: a signal handler cannot be written in Swift (it may not allocate or take locks), and `struct sigaction` has a union
// that Swift sees differently on each system. Can go never.

/// Handles SIGTSTP, SIGTTIN, SIGTTOU and SIGCONT from now on. The calling thread, which stays and is the only one to call the
/// functions below, blocks the first three; whichever thread takes one sends it on to it, where it is pending until the system discards it,
/// because SIGCONT comes, or `rt_stop` lets it through. So the system itself keeps account of whether the process is to stop. A
/// byte is written to `descriptor` at each signal, which must not block.
///
/// A stop signal that is ignored stays so. A handler of SIGCONT that was there is called. In a child after fork, what was there
/// before takes the place of the handlers. Once a process. Returns how many stop signals are handled, or -errno.
///
/// A thread of its own has the four signals unblocked, so that they arrive even if all other threads block them: a process inherits the
/// mask of the thread that spawned it, and those of libdispatch block nearly everything.
int rt_stop_signals_handle(int descriptor);

/// Whether a stop signal came, and no SIGCONT since.
int rt_stop_signals_are_pending(void);

/// When the last stop signal came, in ns of the monotonic clock; 0 when that was asked already.
uint64_t rt_stop_signals_take_time(void);

/// Lets what is pending do what it did before it was handled, which is to stop the process. Returns when the process goes on; at
/// once when nothing is pending, or the system does not stop it.
void rt_stop(void);

// MARK: Fork
//
// Why: `pthread_atfork` takes C function pointers that run in the child of a process with threads, where Swift code may
// not run. Can go never: this is what the function is for.

/// How many forks lie between the process that loaded the program and the calling process.
uint32_t rt_fork_generation(void);

/// Notes a connection to a file in this process. Returns the generation, for `rt_open_file_remove`.
uint32_t rt_open_file_add(uint64_t device, uint64_t inode);
/// Forgets a connection that was noted in this generation.
void rt_open_file_remove(uint64_t device, uint64_t inode, uint32_t generation);
/// Whether a connection to the file was open when an ancestor of this process forked, and was not closed since in this process. SQLite's table
/// of open files tells this process then of locks that its ancestor has.
int rt_open_file_is_inherited(uint64_t device, uint64_t inode);

/// `fork` itself, which Swift marks unavailable; for the tests of what happens after it.
int rt_fork(void);

enum { RT_CHILD_CAPACITY = 512 };

/// Closes the descriptor in every child from now on, so that a lock of its open file description ends with this process. Returns an
/// index, or -1 when there is no room.
int rt_close_in_child(int descriptor);
/// Forgets the descriptor; call it before `close`.
void rt_keep_in_child(int index);

// MARK: File systems
//
// Why: Swift's Glibc module leaves out <sys/vfs.h>. Can go when it does not.

#if defined(__linux__)
/// The magic number of the file system that holds `path` (statfs(2)), or -1 with errno.
int64_t rt_file_system_type(const char *path);

/// `O_PATH` of open(2). Why: <fcntl.h> has it for _GNU_SOURCE alone, which Swift does not define.
int32_t rt_open_path_flag(void);
#endif

// MARK: Thread-local pointer
//
// Why: Swift has no thread-local variables with the cost of one load. Can go when it has.

void *rt_thread_local_get(void);
void rt_thread_local_set(void *value);

// MARK: Erasing
//
// Why: a compiler leaves out stores to memory that is freed next. Can go when Swift has a way to say that they count.

/// Writes zeros over `count` bytes, also when nobody reads them again.
static inline void rt_erase(void *bytes, size_t count) {
    volatile unsigned char *byte = (volatile unsigned char *)bytes;
    while (count--) *byte++ = 0;
}

// MARK: Symbols
//
// Why: whether the library that a function is from has another, too, is known when the program runs: SQLCipher takes the place of SQLite, with
// one function more. Glibc's module does not have `dladdr`. Can go when Swift has weak imports on all systems.

/// The address of the function `name` in the very library or program that has `neighbour`; NULL when it has none. Another library's, such as
/// that of a second SQLite in the process, is none.
void *rt_symbol_beside(const void *neighbour, const char *name);

// MARK: SQLite
//
// Why: `sqlite3_db_config` is variadic, which Swift does not import. Inline, so that whoever calls it links SQLite, and not
// this module. Can go when SQLite has a pragma for it.

struct sqlite3;
int sqlite3_db_config(struct sqlite3 *connection, int operation, ...);

/// Whether the connection checkpoints when it closes and is the last one (SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE). For that, SQLite
/// takes an exclusive lock on the database file. Returns SQLite's code.
static inline int rt_checkpoint_on_close(struct sqlite3 *connection, int is_on) {
    return sqlite3_db_config(connection, 1006, !is_on, (int *)0);
}

#endif
