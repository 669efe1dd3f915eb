// The part of the loadable extension that is in C: a VFS that wraps the default one, and the entry point. It calls SQLite through
// `sqlite3ext.h` alone, so it uses the copy of SQLite that has loaded it.
//
// Why C: SQLite's routines are reached by macros, and Swift imports none of them. Can go when SQLite's interface for extensions has functions.

#ifndef ROUNDTABLE_LOADABLE_H
#define ROUNDTABLE_LOADABLE_H

#include <stdint.h>

/// A database file that SQLite has opened through the VFS.
struct rtl_file;

// MARK: What the participant asks of the file. The caller is the thread that uses the connection.

/// The first page of the wal-index as SQLite maps it; NULL when it is not mapped.
const void *rtl_file_wal_index(struct rtl_file *file);
/// Whether SQLite's write lock is free, by rule T12.
int rtl_file_is_write_lock_free(struct rtl_file *file);
/// Whether the connection is inside a transaction that has begun with a read, or that is not known.
int rtl_file_is_upgrading(struct rtl_file *file);

// MARK: What the file asks of the participant, which is in Swift.

/// A participant for the database at `path`. It joins at the first write.
void *rtl_participant_open(struct rtl_file *file, const char *path, const char *author, int creates_block);
void rtl_participant_close(void *participant);
/// Whether the participant has joined, so that others wait for its turns.
int rtl_participant_has_joined(void *participant);
/// Whether SQLite had the database at `path` open in this process before the fork that made it.
int rtl_is_open_before_fork(const char *path);
/// Whether a file of the database is not in its place any more (rule W12): now, or less than 10 ms ago.
int rtl_participant_has_lost_file(void *participant, int now);
/// Called when SQLite has `-wal` and `-shm` open, and when it has closed them.
void rtl_participant_note_wal(void *participant, int is_open);
/// Called before SQLite's write lock is requested. Returns 0 if another participant has the turn, and the lock is not to be requested.
int rtl_participant_will_lock(void *participant);
void rtl_participant_did_lock(void *participant, int is_locked);
/// Called while the write lock is held, and afterwards when it is released.
void rtl_participant_will_unlock(void *participant);
void rtl_participant_did_unlock(void *participant);
/// Waits for what kept the last request from getting the lock. Returns the time that passed, in µs; -1 when there is nothing to wait for.
int rtl_participant_sleep(void *participant, int microseconds);
/// Describes the participant, for `PRAGMA roundtable`. Returns the length without the terminating zero, of which `size` - 1 bytes were written.
int rtl_participant_describe(void *participant, char *text, int size);

#endif
