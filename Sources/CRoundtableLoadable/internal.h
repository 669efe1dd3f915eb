// What the files of this target share.

#ifndef ROUNDTABLE_LOADABLE_INTERNAL_H
#define ROUNDTABLE_LOADABLE_INTERNAL_H

#include "CRoundtableLoadable.h"

#include <pthread.h>
#include <sqlite3ext.h>
#include <stdatomic.h>
#include <sys/types.h>

SQLITE_EXTENSION_INIT3

/// The participant of a file, which a thread that was refused the lock may keep longer than the file is open.
struct rtl_member {
    atomic_int references;
    /// Held while `participant` is used, because a thread may sleep for a connection that another thread has got meanwhile.
    pthread_mutex_t mutex;
    /// NULL when the file is closed.
    void *participant;
    /// Whether the connection has SQLite's write lock.
    int is_writing;
    /// The process that has opened the file. A child of fork uses neither the mutex, which may stay locked in it for ever, nor the participant.
    pid_t process;
};

struct rtl_file {
    sqlite3_file base;
    struct rtl_member *member;
    /// Where the connection that uses the file is found; NULL until SQLite says so.
    sqlite3 **connection;
    /// The locks of read marks that are held, one bit each.
    unsigned read_marks;
    /// Whether SQLite has the WAL and the wal-index open.
    int has_wal;
    int is_checkpointing;
    /// Whether the host has set PRAGMA synchronous itself.
    int says_synchronous;
    /// Of a WAL: the database's file. NULL for a database.
    struct rtl_file *database;
    /// Of a WAL: whether its header was written after the last sync.
    int has_new_header;
    /// The file of the wrapped VFS, which follows this structure.
    sqlite3_file *real;
};

/// The methods for a wrapped file with methods of this version.
const sqlite3_io_methods *rtl_methods(int version);

/// The methods for a wrapped WAL.
const sqlite3_io_methods *rtl_wal_methods(void);

/// Whether the file is one that `rtl_methods` serves.
int rtl_is_database(sqlite3_file *file);

/// Whether the calling process has opened the member's file.
int rtl_member_is_own(const struct rtl_member *member);

/// A member with one reference; NULL without memory.
struct rtl_member *rtl_member_new(void *participant);
void rtl_member_release(struct rtl_member *member);

/// The member whose request for the write lock was refused to the calling thread, if nothing has happened on the thread since. The caller
/// gets the reference.
struct rtl_member *rtl_take_refused(void);

#endif
