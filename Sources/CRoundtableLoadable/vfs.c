// The VFS `roundtable`, and the entry point that registers it.

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE // for `program_invocation_short_name`
#endif

#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT1

/// The default VFS at the time of loading, and the one that wraps it.
static sqlite3_vfs *real;
static sqlite3_vfs vfs;

static const char *program_name(void) {
#if defined(__APPLE__)
    return getprogname();
#else
    return program_invocation_short_name;
#endif
}

/// Opens a file of the wrapped VFS, which follows the structure.
static int open_real(struct rtl_file *file, const char *name, int flags, int *opened) {
    memset(file, 0, sizeof *file);
    file->real = (sqlite3_file *)(file + 1);
    file->real->pMethods = NULL;
    return real->xOpen(real, name, file->real, flags, opened);
}

/// Opens a WAL, whose commits need not be synced one by one. Before 3.32, SQLite does not tell whose WAL it is: it then stays as it is.
static int open_wal(const char *name, sqlite3_file *p, int flags, int *opened) {
    sqlite3_file *database = sqlite3_libversion_number() < 3032000 ? NULL : sqlite3_database_file_object(name);
    if (!rtl_is_database(database)) return real->xOpen(real, name, p, flags, opened);
    struct rtl_file *file = (struct rtl_file *)p;
    int code = open_real(file, name, flags, opened);
    file->database = (struct rtl_file *)database;
    if (file->real->pMethods) file->base.pMethods = rtl_wal_methods();
    return code;
}

static int open_file(sqlite3_vfs *ignored, const char *name, sqlite3_file *p, int flags, int *opened) {
    if ((flags & SQLITE_OPEN_WAL) && name) return open_wal(name, p, flags, opened);
    // Journals and temporary files are the wrapped VFS's own.
    if (!(flags & SQLITE_OPEN_MAIN_DB) || !name) return real->xOpen(real, name, p, flags, opened);
    if (rtl_is_open_before_fork(name)) {
        sqlite3_log(
            SQLITE_MISUSE, "roundtable: %s was opened before fork(), and its locks are the parent's: call exec in the child first", name
        );
        p->pMethods = NULL;
        return SQLITE_MISUSE;
    }
    struct rtl_file *file = (struct rtl_file *)p;
    int code = open_real(file, name, flags, opened);
    if (!file->real->pMethods) return code;
    if (code == SQLITE_OK) {
        const char *author = sqlite3_uri_parameter(name, "roundtable_as");
        void *participant = rtl_participant_open(
            file, name, author ? author : program_name(), sqlite3_uri_boolean(name, "roundtable", 0)
        );
        file->member = rtl_member_new(participant);
        if (file->member) {
            file->base.pMethods = rtl_methods(file->real->pMethods->iVersion);
            return SQLITE_OK;
        }
        rtl_participant_close(participant);
        code = SQLITE_NOMEM;
    }
    file->real->pMethods->xClose(file->real);
    return code;
}

/// The busy handler of SQLite sleeps here: so this is where a thread waits for the turn that its connection was refused. The connection
/// holds no read mark meanwhile.
static int sleep_for(sqlite3_vfs *ignored, int microseconds) {
    struct rtl_member *member = rtl_take_refused();
    int slept = -1;
    if (member) {
        if (rtl_member_is_own(member) && pthread_mutex_trylock(&member->mutex) == 0) {
            if (member->participant && !member->is_writing) slept = rtl_participant_sleep(member->participant, microseconds);
            pthread_mutex_unlock(&member->mutex);
        }
        rtl_member_release(member);
    }
    return slept >= 0 ? slept : real->xSleep(real, microseconds);
}

// MARK: What is the wrapped VFS's alone

static int delete_file(sqlite3_vfs *v, const char *name, int syncs) { return real->xDelete(real, name, syncs); }
static int access_file(sqlite3_vfs *v, const char *name, int flags, int *answer) { return real->xAccess(real, name, flags, answer); }
static int full_path(sqlite3_vfs *v, const char *name, int size, char *path) { return real->xFullPathname(real, name, size, path); }
static void *open_library(sqlite3_vfs *v, const char *name) { return real->xDlOpen(real, name); }
static void library_error(sqlite3_vfs *v, int size, char *text) { real->xDlError(real, size, text); }
static void (*library_symbol(sqlite3_vfs *v, void *library, const char *name))(void) { return real->xDlSym(real, library, name); }
static void close_library(sqlite3_vfs *v, void *library) { real->xDlClose(real, library); }
static int randomness(sqlite3_vfs *v, int count, char *bytes) { return real->xRandomness(real, count, bytes); }
static int current_time(sqlite3_vfs *v, double *time) { return real->xCurrentTime(real, time); }
static int last_error(sqlite3_vfs *v, int size, char *text) { return real->xGetLastError(real, size, text); }
static int current_time_64(sqlite3_vfs *v, sqlite3_int64 *time) { return real->xCurrentTimeInt64(real, time); }
static int set_system_call(sqlite3_vfs *v, const char *name, sqlite3_syscall_ptr call) {
    return real->xSetSystemCall(real, name, call);
}
static sqlite3_syscall_ptr get_system_call(sqlite3_vfs *v, const char *name) { return real->xGetSystemCall(real, name); }
static const char *next_system_call(sqlite3_vfs *v, const char *name) { return real->xNextSystemCall(real, name); }

static void wrap(sqlite3_vfs *wrapped) {
    real = wrapped;
    vfs = *wrapped;
    vfs.iVersion = wrapped->iVersion > 3 ? 3 : wrapped->iVersion;
    vfs.szOsFile = (int)sizeof(struct rtl_file) + wrapped->szOsFile;
    vfs.pNext = NULL;
    vfs.zName = "roundtable";
    vfs.pAppData = NULL;
    vfs.xOpen = open_file;
    vfs.xDelete = delete_file;
    vfs.xAccess = access_file;
    vfs.xFullPathname = full_path;
    vfs.xDlOpen = open_library;
    vfs.xDlError = library_error;
    vfs.xDlSym = library_symbol;
    vfs.xDlClose = close_library;
    vfs.xRandomness = randomness;
    vfs.xSleep = sleep_for;
    vfs.xCurrentTime = current_time;
    vfs.xGetLastError = last_error;
    if (wrapped->iVersion >= 2) vfs.xCurrentTimeInt64 = current_time_64;
    if (wrapped->iVersion >= 3) {
        vfs.xSetSystemCall = set_system_call;
        vfs.xGetSystemCall = get_system_call;
        vfs.xNextSystemCall = next_system_call;
    }
}

/// Registers the VFS as the default one, so connections that are opened later take turns. The extension stays until the process ends.
__attribute__((visibility("default"))) int sqlite3_roundtable_init(
    sqlite3 *connection, char **error, const sqlite3_api_routines *routines
) {
    if (sqlite3_api && sqlite3_api != routines) {
        sqlite3_api_routines const *others = routines;
        *error = others->mprintf("roundtable: another copy of SQLite in this process has loaded it");
        return SQLITE_ERROR;
    }
    SQLITE_EXTENSION_INIT2(routines)
    if (real) return SQLITE_OK_LOAD_PERMANENTLY;
    sqlite3_vfs *wrapped = sqlite3_vfs_find(NULL);
    if (!wrapped) return SQLITE_ERROR;
    wrap(wrapped);
    int code = sqlite3_vfs_register(&vfs, 1);
    return code == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : code;
}
