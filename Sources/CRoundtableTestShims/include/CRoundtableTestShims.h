// What the test kit cannot call from Swift. Not linked into programs that use the library Roundtable alone.

#ifndef ROUNDTABLE_TEST_SHIMS_H
#define ROUNDTABLE_TEST_SHIMS_H

#include "rt_checkpoint_vfs.h"

#if defined(__linux__)

/// Gives the calling thread an empty table of open files of its own; it must end soon, and share nothing with a pool.
/// Returns 0, else an errno.
///
/// Why: closing any descriptor of a file drops the POSIX locks that the *table* has on it. A thread with a table of its own
/// can read a database's header while another thread of the process has the database open in SQLite. `unshare` and
/// `close_range` are not among what Swift imports of glibc. Can go when they are.
int rt_leave_file_table(void);

/// Makes the calling thread, and no other, that of another user, for the rest of its life. Returns 0, else an errno.
///
/// Why: what a process may not read or write cannot be tested as root, whom the system denies nothing. glibc's `setresuid` changes all threads;
/// the system call changes one.
int rt_give_up_root(unsigned user);

/// The process at the other end of a Unix socket, as it was when it connected; -1 when unknown.
///
/// Why: `struct ucred` and `SO_PEERCRED` are not among what Swift imports of glibc.
int rt_peer_pid(int socket);

#endif
#endif
