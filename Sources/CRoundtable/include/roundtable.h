/// Roundtable for C: fair turns, and notification of commits, for code that shares a SQLite database with other processes.
///
/// The connection, its statements, its transactions and its hooks stay yours. Open it with sqlite3_open as usual, attach it, and put each
/// write transaction into a turn. The rules U in `Sources/RoundtableCore/RawHandles` say what Roundtable does in between.
///
/// Functions that can fail return ROUNDTABLE_OK or a code: one of SQLite's result codes (`code & 0xff` is a primary one, such as
/// SQLITE_BUSY), or one of those below. If `error` is not NULL, it is set to a message, or to NULL if there is no error. The message says
/// what happened, which process is in the way, and what to do. It belongs to the caller, who frees it with `roundtable_free`.
///
/// Any thread may call any function, but the thread that began a turn must end it. Attaching, beginning a turn and ending a turn use the
/// connection. If it was opened with SQLITE_OPEN_NOMUTEX, no other thread may use it at the same time. Text is UTF-8; other text is
/// rejected with SQLITE_MISUSE. After `fork`, the child must not use what its parent has opened, and must not open the same database
/// again, until it has called `exec`.
#ifndef ROUNDTABLE_H
#define ROUNDTABLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;

/// A database that this process shares, as a participant.
typedef struct roundtable_database roundtable_database;
/// An attached connection, which takes turns.
typedef struct roundtable_handle roundtable_handle;

enum {
    ROUNDTABLE_OK = 0,
    /// The connection is to another file than the shared database.
    ROUNDTABLE_OTHER_DATABASE = 21 | 1 << 8,
    /// The connection is to a database in memory, or to a temporary one.
    ROUNDTABLE_NOT_A_FILE = 21 | 2 << 8,
    /// The database is not in WAL mode, according to the connection.
    ROUNDTABLE_NOT_IN_WAL_MODE = 21 | 3 << 8,
    /// The connection was opened by another copy of SQLite in this process, or through another VFS.
    ROUNDTABLE_OTHER_SQLITE = 21 | 4 << 8,
    /// The connection is inside a transaction, where a turn cannot begin.
    ROUNDTABLE_TRANSACTION_OPEN = 21 | 5 << 8,
    /// The connection is inside a transaction, where a turn cannot end. COMMIT or ROLLBACK, then end the turn again. All other writers
    /// wait.
    ROUNDTABLE_TRANSACTION_LEFT_OPEN = 21 | 6 << 8,
    /// This thread already holds a turn.
    ROUNDTABLE_NESTED_TURN = 21 | 7 << 8,
    /// Another thread holds the turn, and must end it.
    ROUNDTABLE_WRONG_THREAD = 21 | 8 << 8,
    /// There is no turn to end.
    ROUNDTABLE_NO_TURN = 21 | 9 << 8,
    /// The handle holds a turn, in which it cannot be detached.
    ROUNDTABLE_DETACHED_IN_TURN = 21 | 10 << 8,
    /// The database was closed during a wait for a turn or for a change. Turns that are requested later fail with SQLITE_MISUSE.
    ROUNDTABLE_DETACHED = 21 | 11 << 8,
    /// The connection is in SQLite's shared-cache mode.
    ROUNDTABLE_SHARED_CACHE = 21 | 12 << 8,
    /// The connection is one of Roundtable's own.
    ROUNDTABLE_OWN_CONNECTION = 21 | 14 << 8,
    /// Another thread has left a transaction open in its turn. COMMIT or ROLLBACK, then end that turn.
    ROUNDTABLE_TURN_KEPT = 21 | 15 << 8,
    /// Nothing changed before the timeout.
    ROUNDTABLE_NO_CHANGE = 101,
};

/// Priorities. They decide which participant goes first when several wait to write.
enum {
    ROUNDTABLE_INTERACTIVE = 0,
    ROUNDTABLE_DEFAULT = 1,
    ROUNDTABLE_BACKGROUND = 2,
};

/// Opens a database for sharing. Creates it and sets WAL mode if needed. The schema is the caller's.
///
/// `author` is the name of this process for other processes: in `SQLITE_BUSY`, in `roundtable status`, and in its changes.
int roundtable_open(const char *path, const char *author, roundtable_database **database, char **error);

/// Closes a database: detaches all handles (they must still be freed by `roundtable_detach`), stops being a participant, and frees
/// `database`. On failure, `database` is not freed. Returns SQLITE_BUSY when a handle holds the turn. `database` may be NULL.
int roundtable_close(roundtable_database *database, char **error);

/// Attaches a connection, so that it can take turns. The connection must be open for writing to the same file. If SQLite's own automatic
/// checkpoints are on, they are turned off, because Roundtable checkpoints. Your own WAL hook stays.
int roundtable_attach(roundtable_database *database, struct sqlite3 *connection, roundtable_handle **handle, char **error);

/// Detaches a connection and frees `handle`. The connection stays open. Call this before the connection is closed. On failure, nothing
/// changes. `handle` may be NULL.
int roundtable_detach(roundtable_handle *handle, char **error);

/// Acquires the turn to write. Then run `BEGIN IMMEDIATE … COMMIT` on the connection.
///
/// `timeout` is in milliseconds; a negative value stands for 5 s. Returns SQLITE_BUSY when the timeout passes: the message names the
/// process in the way. Returns SQLITE_INTERRUPT while the database is suspended.
int roundtable_begin_turn(roundtable_handle *handle, int timeout, int priority, char **error);

/// Ends the turn, and notifies all observers of the commits made in it.
///
/// `tables` are the names of the tables that were written. The tables that their triggers and foreign keys write are added. NULL means that
/// any table may have been written: all observers are notified, of all tables. Returns SQLITE_MISUSE, and does not end the turn, when a
/// name is NULL or not UTF-8, or `count` is beyond 100,000. The connection's `sqlite3_errmsg` may change.
int roundtable_end_turn(roundtable_handle *handle, const char *const *tables, size_t count, char **error);

/// Returns 1 if any thread is in a turn of the connection, else 0.
int roundtable_is_in_turn(roundtable_handle *handle);

/// Sets `*version` to a number that grows with each committed change of any process, this process included. It has no meaning for other
/// processes, or after the database was closed. The first call begins to observe, and returns the version 1.
int roundtable_version(roundtable_database *database, uint64_t *version, char **error);

/// Waits until the version is greater than `*version`, and sets `*version` to it. `timeout` is in milliseconds; a negative value means no
/// timeout. Returns ROUNDTABLE_NO_CHANGE when the timeout passes, and ROUNDTABLE_DETACHED when another thread closes the database during
/// the wait. A wait must not begin after the database was closed.
int roundtable_wait_for_change(roundtable_database *database, uint64_t *version, int timeout, char **error);

/// Returns 1 if `table` may have changed after `version`, else 0. `table` must be spelled as SQLite reports it, in the same case.
int roundtable_has_changed(roundtable_database *database, uint64_t version, const char *table);

/// Frees an error message. `error` may be NULL.
void roundtable_free(char *error);

#ifdef __cplusplus
}
#endif

#endif
