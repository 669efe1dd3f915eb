// Functions that the test kit cannot call from Swift. Programs that use only the library Roundtable do not link them.

#ifndef ROUNDTABLE_TEST_SHIMS_H
#define ROUNDTABLE_TEST_SHIMS_H

#if defined(__linux__)

/// Gives the calling thread its own table of open files: an empty one since Linux 5.9, else a copy. The thread must end soon, and must
/// not belong to a pool. Returns 0 or an errno.
///
/// Why: closing any descriptor of a file drops the POSIX locks that the *table* has on it. A thread with its own table can read the
/// header of a database while another thread of the process has the database open in SQLite. Swift does not import `unshare` and
/// `close_range` from glibc. This function can go when it does.
int rt_leave_file_table(void);

/// Makes the calling thread, and no other, run as another user until it ends. Returns 0 or an errno.
///
/// Why: root can read and write everything, so tests of denied access must run as another user. glibc's `setresuid` changes all threads,
/// but the system call changes only one.
int rt_give_up_root(unsigned user);

/// Returns the pid of the process that connected the other end of a Unix socket; -1 when it is not known.
///
/// Why: Swift does not import `struct ucred` and `SO_PEERCRED` from glibc.
int rt_peer_pid(int socket);

/// Returns the user of that process, when it connected; -1 as an unsigned number when it is not known. It needs no file, as a look at
/// `/proc` would.
unsigned rt_peer_user(int socket);

/// Returns the value of an extended attribute of one byte; -1 when the file has none of this name, or a longer or shorter one. The file
/// is not opened.
///
/// Why: Swift does not import `getxattr` from glibc.
int rt_byte_attribute(const char *path, const char *name);

#endif
#endif
