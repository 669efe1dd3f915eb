// The methods of a database file. All go to the wrapped file, and those of the wal-index's locks to the participant, too.

#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The locks of the wal-index (SQLite's walformat.html).
enum { WRITE_LOCK = 0, CHECKPOINT_LOCK = 1, FIRST_READ_MARK = 3, LOCK_COUNT = 8 };

#define FILE_OF(p) ((struct rtl_file *)(p))
#define REAL(p) (FILE_OF(p)->real)
#define CALL(p, method, ...) (REAL(p)->pMethods->method(REAL(p), ##__VA_ARGS__))

// MARK: Members

static _Thread_local struct rtl_member *refused;

struct rtl_member *rtl_member_new(void *participant) {
    struct rtl_member *member = calloc(1, sizeof *member);
    if (!member) return NULL;
    atomic_init(&member->references, 1);
    pthread_mutex_init(&member->mutex, NULL);
    member->participant = participant;
    member->process = getpid();
    return member;
}

int rtl_member_is_own(const struct rtl_member *member) { return member->process == getpid(); }

void rtl_member_release(struct rtl_member *member) {
    if (!member || atomic_fetch_sub(&member->references, 1) != 1) return;
    pthread_mutex_destroy(&member->mutex);
    free(member);
}

static void set_refused(struct rtl_member *member) {
    if (member == refused) return;
    rtl_member_release(refused);
    if (member) atomic_fetch_add(&member->references, 1);
    refused = member;
}

struct rtl_member *rtl_take_refused(void) {
    struct rtl_member *member = refused;
    refused = NULL;
    return member;
}

// MARK: For the participant

const void *rtl_file_wal_index(struct rtl_file *file) {
    void volatile *page = NULL;
    sqlite3_file *real = file->real;
    // SQLite asks for regions of this size, and has mapped the first one before it requests a lock.
    if (real->pMethods->xShmMap(real, 0, 32768, 0, &page) != SQLITE_OK) return NULL;
    return (const void *)page;
}

int rtl_file_is_write_lock_free(struct rtl_file *file) {
    sqlite3_file *real = file->real;
    if (real->pMethods->xShmLock(real, WRITE_LOCK, 1, SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE) != SQLITE_OK) return 0;
    real->pMethods->xShmLock(real, WRITE_LOCK, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
    return 1;
}

int rtl_file_is_upgrading(struct rtl_file *file) {
    // `sqlite3_txn_state` came with 3.34.
    if (!file->connection || !*file->connection || sqlite3_libversion_number() < 3034000) return 1;
    return sqlite3_txn_state(*file->connection, NULL) != SQLITE_TXN_NONE;
}

// MARK: Locks of the wal-index

/// Requests the write lock for a transaction. Without a read mark it is for a recovery, and within a checkpoint for that: both take no turn.
static int lock_to_write(struct rtl_file *file, int flags) {
    struct rtl_member *member = file->member;
    pthread_mutex_lock(&member->mutex);
    int code = SQLITE_BUSY;
    if (rtl_participant_has_lost_file(member->participant, 0)) {
        code = SQLITE_READONLY_DBMOVED;
    } else if (rtl_participant_will_lock(member->participant)) {
        code = CALL(file, xShmLock, WRITE_LOCK, 1, flags);
        member->is_writing = code == SQLITE_OK;
        rtl_participant_did_lock(member->participant, member->is_writing);
    }
    pthread_mutex_unlock(&member->mutex);
    // SQLite's busy handler sleeps on this thread next.
    set_refused(code == SQLITE_BUSY ? member : NULL);
    return code;
}

/// Whether a file of the connection was lost, so that it must not checkpoint (rule W12d), nor remove the companions by their names when it
/// closes.
static int has_lost_file(struct rtl_file *file, int now) {
    struct rtl_member *member = file->member;
    pthread_mutex_lock(&member->mutex);
    int has = rtl_participant_has_lost_file(member->participant, now);
    pthread_mutex_unlock(&member->mutex);
    return has;
}

static void note_wal(struct rtl_file *file, int is_open) {
    if (file->has_wal == is_open || !rtl_member_is_own(file->member)) return;
    file->has_wal = is_open;
    struct rtl_member *member = file->member;
    pthread_mutex_lock(&member->mutex);
    rtl_participant_note_wal(member->participant, is_open);
    pthread_mutex_unlock(&member->mutex);
}

static int unlock_after_write(struct rtl_file *file, int flags) {
    struct rtl_member *member = file->member;
    pthread_mutex_lock(&member->mutex);
    rtl_participant_will_unlock(member->participant);
    int code = CALL(file, xShmLock, WRITE_LOCK, 1, flags);
    member->is_writing = 0;
    rtl_participant_did_unlock(member->participant);
    pthread_mutex_unlock(&member->mutex);
    return code;
}

static int shm_lock(sqlite3_file *p, int offset, int count, int flags) {
    struct rtl_file *file = FILE_OF(p);
    int is_lock = flags & SQLITE_SHM_LOCK;

    // Rule I6: In a child of `fork`, files that were opened before take no lock, so their statements fail with `SQLITE_MISUSE`, and closing
    // them is passed through; a file that was open at the fork cannot be opened (W4); and nothing of the block is written (P13). A file
    // that was opened before the extension was loaded is not known.

    // The locks are the parent's (rule I6).
    if (is_lock && !rtl_member_is_own(file->member)) return SQLITE_MISUSE;
    // What follows a refusal before the sleep is that the connection gives its read mark up.
    if (is_lock || file->member != refused) set_refused(NULL);
    if (offset == WRITE_LOCK && count == 1 && (flags & SQLITE_SHM_EXCLUSIVE) && rtl_member_is_own(file->member)) {
        if (is_lock && file->read_marks && !file->is_checkpointing) return lock_to_write(file, flags);
        if (!is_lock && file->member->is_writing) return unlock_after_write(file, flags);
    }
    if (is_lock && offset == CHECKPOINT_LOCK && has_lost_file(file, 0)) return SQLITE_BUSY;
    int code = CALL(p, xShmLock, offset, count, flags);
    if (code != SQLITE_OK) return code;
    if (offset == CHECKPOINT_LOCK && (flags & SQLITE_SHM_EXCLUSIVE)) file->is_checkpointing = is_lock != 0;
    if (offset >= FIRST_READ_MARK && offset < LOCK_COUNT && (flags & SQLITE_SHM_SHARED)) {
        // SQLite opens the WAL and the wal-index before it reads them.
        if (is_lock) note_wal(file, 1);
        if (is_lock) file->read_marks |= 1u << offset; else file->read_marks &= ~(1u << offset);
    }
    return code;
}

static int shm_unmap(sqlite3_file *p, int deletes) {
    struct rtl_file *file = FILE_OF(p);
    file->read_marks = 0;
    note_wal(file, 0);
    return CALL(p, xShmUnmap, deletes);
}

static int lock(sqlite3_file *p, int level) {
    set_refused(NULL);
    struct rtl_file *file = FILE_OF(p);
    if (!rtl_member_is_own(file->member)) return SQLITE_MISUSE;
    int code = CALL(p, xLock, level);
    // The last connection that closes checkpoints under this lock alone, without those of the wal-index, and then removes the WAL by its
    // name. Nobody opens the database while the lock is held.
    if (code != SQLITE_OK || level != SQLITE_LOCK_EXCLUSIVE || !file->has_wal || !has_lost_file(file, 1)) return code;
    CALL(p, xUnlock, SQLITE_LOCK_SHARED);
    return SQLITE_BUSY;
}

// MARK: Closing, and file controls

static int close_file(sqlite3_file *p) {
    struct rtl_member *member = FILE_OF(p)->member;
    if (rtl_member_is_own(member)) {
        pthread_mutex_lock(&member->mutex);
        rtl_participant_close(member->participant);
        member->participant = NULL;
        pthread_mutex_unlock(&member->mutex);
        rtl_member_release(member);
    }
    return CALL(p, xClose);
}

/// `PRAGMA roundtable` describes the participant. SQLite frees the text.
static int pragma(struct rtl_file *file, char **arguments) {
    if (sqlite3_stricmp(arguments[1], "roundtable") != 0) return SQLITE_NOTFOUND;
    char text[1024] = "no turns: the connection was opened before a fork";
    if (rtl_member_is_own(file->member)) {
        pthread_mutex_lock(&file->member->mutex);
        rtl_participant_describe(file->member->participant, text, sizeof text);
        pthread_mutex_unlock(&file->member->mutex);
    }
    arguments[0] = sqlite3_mprintf("%s", text);
    return arguments[0] ? SQLITE_OK : SQLITE_NOMEM;
}

static int file_control(sqlite3_file *p, int operation, void *argument) {
    struct rtl_file *file = FILE_OF(p);
    if (operation == SQLITE_FCNTL_PDB) file->connection = argument;
    if (operation == SQLITE_FCNTL_PRAGMA) {
        const char **arguments = argument;
        if (sqlite3_stricmp(arguments[1], "synchronous") == 0 && arguments[2]) file->says_synchronous = 1;
        int code = pragma(file, argument);
        if (code != SQLITE_NOTFOUND) return code;
    }
    int code = CALL(p, xFileControl, operation, argument);
    if (operation == SQLITE_FCNTL_VFSNAME && code == SQLITE_OK) {
        char **name = argument;
        char *whole = sqlite3_mprintf("roundtable/%z", *name);
        *name = whole;
    }
    return code;
}

// MARK: What is the wrapped file's alone

static int read_file(sqlite3_file *p, void *bytes, int count, sqlite3_int64 at) { return CALL(p, xRead, bytes, count, at); }
static int write_file(sqlite3_file *p, const void *bytes, int count, sqlite3_int64 at) { return CALL(p, xWrite, bytes, count, at); }
static int truncate_file(sqlite3_file *p, sqlite3_int64 size) { return CALL(p, xTruncate, size); }
static int sync_file(sqlite3_file *p, int flags) { return CALL(p, xSync, flags); }
static int file_size(sqlite3_file *p, sqlite3_int64 *size) { return CALL(p, xFileSize, size); }
static int unlock(sqlite3_file *p, int level) { return CALL(p, xUnlock, level); }
static int check_reserved(sqlite3_file *p, int *is_held) { return CALL(p, xCheckReservedLock, is_held); }
static int sector_size(sqlite3_file *p) { return CALL(p, xSectorSize); }
static int characteristics(sqlite3_file *p) { return CALL(p, xDeviceCharacteristics); }
static int shm_map(sqlite3_file *p, int region, int size, int extends, void volatile **page) {
    return CALL(p, xShmMap, region, size, extends, page);
}
static void shm_barrier(sqlite3_file *p) { CALL(p, xShmBarrier); }
static int fetch(sqlite3_file *p, sqlite3_int64 at, int count, void **bytes) { return CALL(p, xFetch, at, count, bytes); }
static int unfetch(sqlite3_file *p, sqlite3_int64 at, void *bytes) { return CALL(p, xUnfetch, at, bytes); }

#define METHODS(version)                                                                                                       \
    {                                                                                                                          \
        version, close_file, read_file, write_file, truncate_file, sync_file, file_size, lock, unlock, check_reserved,         \
            file_control, sector_size, characteristics, shm_map, shm_lock, shm_barrier, shm_unmap, fetch, unfetch              \
    }

static const sqlite3_io_methods methods[] = {METHODS(1), METHODS(2), METHODS(3)};

int rtl_is_database(sqlite3_file *file) {
    return file && file->pMethods >= methods && file->pMethods < methods + sizeof methods / sizeof *methods;
}

// MARK: The WAL

static int close_wal(sqlite3_file *p) { return CALL(p, xClose); }
static int lock_wal(sqlite3_file *p, int level) { return CALL(p, xLock, level); }
static int control_wal(sqlite3_file *p, int operation, void *argument) { return CALL(p, xFileControl, operation, argument); }

static int write_wal(sqlite3_file *p, const void *bytes, int count, sqlite3_int64 at) {
    if (at == 0) FILE_OF(p)->has_new_header = 1;
    return CALL(p, xWrite, bytes, count, at);
}

// Rule I7: While the participant is at a control block, a commit of the host in a transaction of I3 syncs the WAL as `synchronous = NORMAL`
// says (only after a new header), also where the host has SQLite's default, `FULL`: a sync within the turn makes all others wait. A host
// that runs `PRAGMA synchronous = …` on the connection gets what it asks for. The syncs of checkpoints stay. With a SQLite before 3.32, the
// host's syncs stay.

/// Whether a sync is that of a commit, which NORMAL leaves out and FULL, SQLite's default, makes while all other writers wait (rule I7).
/// What remains is what NORMAL makes: the sync of a new header, and the one before a checkpoint.
static int is_sync_of_commit(const struct rtl_file *wal) {
    const struct rtl_file *database = wal->database;
    if (wal->has_new_header || database->says_synchronous || database->is_checkpointing) return 0;
    struct rtl_member *member = database->member;
    return rtl_member_is_own(member) && member->is_writing && rtl_participant_has_joined(member->participant);
}

static int sync_wal(sqlite3_file *p, int flags) {
    if (is_sync_of_commit(FILE_OF(p))) return SQLITE_OK;
    int code = CALL(p, xSync, flags);
    if (code == SQLITE_OK) FILE_OF(p)->has_new_header = 0;
    return code;
}

const sqlite3_io_methods *rtl_wal_methods(void) {
    static const sqlite3_io_methods wal_methods = {
        1, close_wal, read_file, write_wal, truncate_file, sync_wal, file_size, lock_wal, unlock, check_reserved, control_wal,
        sector_size, characteristics,
    };
    return &wal_methods;
}

// MARK: The methods of a database

const sqlite3_io_methods *rtl_methods(int version) {
    return &methods[version < 1 ? 0 : version > 3 ? 2 : version - 1];
}
