/// Fair turns, and news of commits, for C code that shares a SQLite database with other processes through Roundtable.
///
/// The connection, its statements, its transactions and its hooks stay yours: open it with sqlite3_open as ever, attach it, and put each write
/// transaction into a turn. `docs/PROTOCOL.md`, section U, says what happens in between.
///
/// Functions that can fail return ROUNDTABLE_OK or a code: one of SQLite's result codes (`code & 0xff` is a primary one, such as
/// SQLITE_BUSY), or one of those below. When `error` is not NULL, it is set to a message, or to NULL where there is no error: who is
/// in the way, and what to do. The message belongs to the caller, who gives it back with `roundtable_free`.
///
/// Any thread may call any function; a turn is ended by the thread that began it. To attach, and to begin and end a turn, uses the connection: one
/// that was opened with SQLITE_OPEN_NOMUTEX must not be used by another thread meanwhile. Text is UTF-8: SQLITE_MISUSE where it is not. After `fork`, the child must
/// neither use what its parent has opened nor open the same database again, until it has called `exec`.
#ifndef ROUNDTABLE_H
#define ROUNDTABLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;

/// A database that this process shares: a participant.
typedef struct roundtable_database roundtable_database;
/// A connection that takes turns.
typedef struct roundtable_handle roundtable_handle;

enum {
    ROUNDTABLE_OK = 0,
    /// Another file than the shared database, or none at all.
    ROUNDTABLE_OTHER_DATABASE = 21 | 1 << 8,
    ROUNDTABLE_NOT_A_FILE = 21 | 2 << 8,
    ROUNDTABLE_NOT_IN_WAL_MODE = 21 | 3 << 8,
    /// The connection was opened by another copy of SQLite in this process.
    ROUNDTABLE_OTHER_SQLITE = 21 | 4 << 8,
    /// A turn cannot begin within a transaction.
    ROUNDTABLE_TRANSACTION_OPEN = 21 | 5 << 8,
    /// A turn cannot end within a transaction: COMMIT or ROLLBACK, then end it again. All other processes wait.
    ROUNDTABLE_TRANSACTION_LEFT_OPEN = 21 | 6 << 8,
    /// This thread has a turn already.
    ROUNDTABLE_NESTED_TURN = 21 | 7 << 8,
    ROUNDTABLE_WRONG_THREAD = 21 | 8 << 8,
    /// There is no turn to end.
    ROUNDTABLE_NO_TURN = 21 | 9 << 8,
    /// A handle cannot be detached in a turn.
    ROUNDTABLE_DETACHED_IN_TURN = 21 | 10 << 8,
    /// The database was closed, also while a change was waited for.
    ROUNDTABLE_DETACHED = 21 | 11 << 8,
    /// The connection is in SQLite's shared-cache mode.
    ROUNDTABLE_SHARED_CACHE = 21 | 12 << 8,
    /// The connection is one of Roundtable's own.
    ROUNDTABLE_OWN_CONNECTION = 21 | 14 << 8,
    /// Another thread has left a transaction open in its turn: COMMIT or ROLLBACK, then end that.
    ROUNDTABLE_TURN_KEPT = 21 | 15 << 8,
    /// Nothing has changed in that time.
    ROUNDTABLE_NO_CHANGE = 101,
};

/// Who goes first when several participants wait to write.
enum {
    ROUNDTABLE_INTERACTIVE = 0,
    ROUNDTABLE_DEFAULT = 1,
    ROUNDTABLE_BACKGROUND = 2,
};

/// Opens a database for sharing; creates it, and sets WAL mode, where that is needed. The schema is the caller's.
///
/// `author` is how other processes will know this one: in `SQLITE_BUSY`, in `roundtable status`, in their changes.
int roundtable_open(const char *path, const char *author, roundtable_database **database, char **error);

/// Detaches all handles (they must still be freed by `roundtable_detach`), leaves the other participants, and frees `database`. On
/// failure it is not freed: SQLITE_BUSY when a handle has the turn. NULL is fine.
int roundtable_close(roundtable_database *database, char **error);

/// Lets a connection to the same file, open for writing, take turns. Turns its automatic checkpoints off, where they are SQLite's own: Roundtable
/// checkpoints. A WAL hook of yours stays.
int roundtable_attach(roundtable_database *database, struct sqlite3 *connection, roundtable_handle **handle, char **error);

/// Ends that, and frees `handle`; the connection stays open. To be called before the connection is closed. On failure it is as before. NULL is fine.
int roundtable_detach(roundtable_handle *handle, char **error);

/// Waits for the turn to write: then `BEGIN IMMEDIATE … COMMIT` on the connection.
///
/// `timeout` is in milliseconds, negative for 5 s. SQLITE_BUSY when it passes: the message names who is in the way. SQLITE_INTERRUPT
/// while the database is suspended.
int roundtable_begin_turn(roundtable_handle *handle, int timeout, int priority, char **error);

/// Ends the turn, and tells all who observe of what was committed in it.
///
/// `tables` are the names of those that were written; those that their triggers and foreign keys write are added. NULL: any may have been, and everybody
/// is told to look at everything. SQLITE_MISUSE, with the turn as it was, when a name is NULL or not UTF-8, or `count` is beyond 100,000. `sqlite3_errmsg` of the connection may be another one afterwards.
int roundtable_end_turn(roundtable_handle *handle, const char *const *tables, size_t count, char **error);

/// Whether the connection is in a turn, of any thread.
int roundtable_is_in_turn(roundtable_handle *handle);

/// A number that grows with each change that anybody has committed, this process included. It means nothing to other processes, nor after closing. The
/// first call begins to observe, and gives 1.
int roundtable_version(roundtable_database *database, uint64_t *version, char **error);

/// Waits until the version is greater than `*version`, and sets it. ROUNDTABLE_NO_CHANGE when `timeout` passes, in milliseconds; negative: never.
/// ROUNDTABLE_DETACHED when another thread closes the database meanwhile; a wait that begins later must not.
int roundtable_wait_for_change(roundtable_database *database, uint64_t *version, int timeout, char **error);

/// 1 when `table` may have changed after `version`; else 0. Names are compared as SQLite tells them, by letter.
int roundtable_has_changed(roundtable_database *database, uint64_t version, const char *table);

/// Frees a message. NULL is fine.
void roundtable_free(char *error);

#ifdef __cplusplus
}
#endif

#endif
