// Functions that Roundtable's own tests cannot call from Swift. Only the test programs of this package link them.

#ifndef ROUNDTABLE_TEST_SUPPORT_H
#define ROUNDTABLE_TEST_SUPPORT_H

#ifdef __linux__
// Why: Swift's Glibc module leaves the functions for extended attributes out.
#include <sys/xattr.h>
#endif

/// Forks `forks` times, one child after the other, while two threads of this process add mappings to the guard's table and remove them.
/// Each child changes the table, too, and ends. Returns 0, ETIMEDOUT when a child hung for 10 s, or another errno.
///
/// Why: a child that runs Swift can hang at a lock of Swift's runtime that another thread held during the fork. Here, neither the threads
/// nor the children run Swift, so a child that hangs does so because of the table.
int rt_fork_while_changing(int forks);

/// `fork` itself.
///
/// Why: Swift marks it unavailable. It is not with the shims of the library, because tvOS and watchOS prohibit it.
int rt_fork(void);

#endif
