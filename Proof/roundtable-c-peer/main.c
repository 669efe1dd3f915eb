// A program in C that shares a database by a raw handle, for the tests: sqlite3.h and roundtable.h, nothing else of ours.
// Usage: roundtable-c-peer DATABASE AUTHOR PROGRESS. Reads one command a line, and answers each with one line.

#include <fcntl.h>
#include <poll.h>
#include <roundtable.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static sqlite3 *connection;
static roundtable_database *database;
static roundtable_handle *handle;
static const char *author;
static sqlite3_stmt *begin, *insert, *commit;
static int progress;
static uint64_t committed;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why ? why : "no message");
    exit(1);
}

static void check(int code, const char *what, char *error) {
    if (code != ROUNDTABLE_OK) fail(what, error);
}

static void checkSQL(int code, const char *what) {
    if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW) fail(what, sqlite3_errmsg(connection));
}

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void pauseFor(double milliseconds) {
    if (milliseconds <= 0) return;
    struct timespec time = {.tv_sec = (time_t)(milliseconds / 1000)};
    time.tv_nsec = (long)((milliseconds - time.tv_sec * 1000.0) * 1e6);
    nanosleep(&time, NULL);
}

static void run(sqlite3_stmt *statement, const char *what) {
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    checkSQL(code, what);
}

static void insertEntry(void) {
    sqlite3_bind_text(insert, 1, author, -1, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 2, (sqlite3_int64)committed + 1);
    run(insert, "INSERT");
}

static void acknowledge(void) {
    committed++;
    if (pwrite(progress, &committed, sizeof committed, 0) != sizeof committed) fail("progress", "not written");
}

/// One transaction in a turn of its own, which takes so many ms at least. Returns how long it waited until it could write, in ms.
static double writeOnce(const char *table, double duration) {
    char *error = NULL;
    double requested = milliseconds();
    check(roundtable_begin_turn(handle, -1, ROUNDTABLE_DEFAULT, &error), "begin turn", error);
    run(begin, "BEGIN");
    double waited = milliseconds() - requested;
    insertEntry();
    pauseFor(duration);
    run(commit, "COMMIT");
    check(roundtable_end_turn(handle, table ? &table : NULL, table ? 1 : 0, &error), "end turn", error);
    acknowledge();
    return waited;
}

static int hasInput(void) {
    struct pollfd request = {.fd = 0, .events = POLLIN};
    return poll(&request, 1, 0) > 0;
}

/// Writes for a time, or until there is a command. Answers with the commits and the three longest waits.
static void loop(double seconds, double duration) {
    double end = milliseconds() + seconds * 1000;
    double longest[3] = {0, 0, 0};
    uint64_t before = committed;
    while (milliseconds() < end && !hasInput()) {
        double waited = writeOnce("entry", duration);
        for (int i = 0; i < 3; i++) {
            if (waited > longest[i]) {
                memmove(longest + i + 1, longest + i, (size_t)(2 - i) * sizeof *longest);
                longest[i] = waited;
                break;
            }
        }
    }
    printf("%llu %f %f %f\n", (unsigned long long)(committed - before), longest[0], longest[1], longest[2]);
}

static long long count(void) {
    sqlite3_stmt *statement;
    checkSQL(sqlite3_prepare_v2(connection, "SELECT COUNT(*) FROM entry", -1, &statement, NULL), "count");
    checkSQL(sqlite3_step(statement), "count");
    long long rows = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rows;
}

/// Waits until so many rows are there, woken by changes alone.
static void waitForRows(long long rows) {
    char *error = NULL;
    uint64_t version = 0, first;
    check(roundtable_version(database, &version, &error), "version", error);
    first = version;
    printf("waiting\n");
    fflush(stdout);
    long long found;
    while ((found = count()) < rows) {
        check(roundtable_wait_for_change(database, &version, 20000, &error), "wait", error);
    }
    printf("%lld %d %d\n", found, roundtable_has_changed(database, first, "entry"),
           roundtable_has_changed(database, first, "migrationLog"));
}

/// Holds a turn, perhaps with a transaction in it, until the next command.
static void hold(int inTransaction, char *line, int size) {
    char *error = NULL;
    const char *table = "entry";
    check(roundtable_begin_turn(handle, -1, ROUNDTABLE_DEFAULT, &error), "begin turn", error);
    if (inTransaction) {
        run(begin, "BEGIN");
        insertEntry();
    }
    printf("held\n");
    fflush(stdout);
    if (!fgets(line, size, stdin)) exit(0);
    if (inTransaction) run(commit, "COMMIT");
    check(roundtable_end_turn(handle, &table, 1, &error), "end turn", error);
    if (inTransaction) acknowledge();
    printf("released\n");
}

/// What is answered to calls in the wrong order, and without arguments.
static void misuse(void) {
    char *error = NULL;
    int codes[7];
    roundtable_handle *other;
    sqlite3 *memory;
    codes[0] = roundtable_end_turn(handle, NULL, 0, NULL);
    check(roundtable_begin_turn(handle, 1000, ROUNDTABLE_BACKGROUND, &error), "begin turn", error);
    codes[1] = roundtable_begin_turn(handle, 1000, ROUNDTABLE_DEFAULT, NULL);
    run(begin, "BEGIN");
    codes[2] = roundtable_end_turn(handle, NULL, 0, &error);
    if (!error || !strstr(error, "COMMIT or ROLLBACK")) fail("message", error);
    roundtable_free(error);
    checkSQL(sqlite3_exec(connection, "ROLLBACK", NULL, NULL, NULL), "ROLLBACK");
    codes[3] = roundtable_detach(handle, NULL);
    codes[4] = roundtable_close(database, NULL);
    if (!roundtable_is_in_turn(handle)) fail("turn", "lost");
    check(roundtable_end_turn(handle, NULL, 0, &error), "end turn", error);
    if (roundtable_is_in_turn(handle)) fail("turn", "not ended");
    checkSQL(sqlite3_open(":memory:", &memory), "open");
    codes[5] = roundtable_attach(database, memory, &other, NULL);
    sqlite3_close(memory);
    codes[6] = roundtable_begin_turn(handle, 0, 7, NULL);
    static const int expected[7] = {
        ROUNDTABLE_NO_TURN, ROUNDTABLE_NESTED_TURN, ROUNDTABLE_TRANSACTION_LEFT_OPEN, ROUNDTABLE_DETACHED_IN_TURN,
        SQLITE_BUSY, ROUNDTABLE_NOT_A_FILE, SQLITE_MISUSE,
    };
    for (int i = 0; i < 7; i++) {
        if (codes[i] != expected[i]) printf("%d: %d and not %d; ", i, codes[i], expected[i]);
    }
    uint64_t version = 0;
    check(roundtable_version(database, &version, &error), "version", error);
    if (roundtable_wait_for_change(database, &version, 1, &error) != ROUNDTABLE_NO_CHANGE) printf("a change; ");
    printf("as expected\n");
}

/// Commits, and exits without ending the turn, so that the commit is not announced.
static void commitAndDie(void) {
    char *error = NULL;
    check(roundtable_begin_turn(handle, -1, ROUNDTABLE_DEFAULT, &error), "begin turn", error);
    run(begin, "BEGIN");
    insertEntry();
    run(commit, "COMMIT");
    acknowledge();
    _exit(3);
}

int main(int argc, char **argv) {
    if (argc != 4) fail("usage", "roundtable-c-peer DATABASE AUTHOR PROGRESS");
    // Commands are waited for with poll.
    setvbuf(stdin, NULL, _IONBF, 0);
    author = argv[2];
    progress = open(argv[3], O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (progress < 0) fail(argv[3], "cannot be opened");
    char *error = NULL;
    check(roundtable_open(argv[1], author, &database, &error), "open", error);
    checkSQL(sqlite3_open(argv[1], &connection), "sqlite3_open");
    sqlite3_busy_timeout(connection, 5000);
    checkSQL(sqlite3_exec(connection, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL), "synchronous");
    check(roundtable_attach(database, connection, &handle, &error), "attach", error);
    checkSQL(sqlite3_prepare_v2(connection, "BEGIN IMMEDIATE", -1, &begin, NULL), "BEGIN");
    checkSQL(sqlite3_prepare_v2(connection, "INSERT INTO entry (author, n, part) VALUES (?, ?, 0)", -1, &insert, NULL), "INSERT");
    checkSQL(sqlite3_prepare_v2(connection, "COMMIT", -1, &commit, NULL), "COMMIT");
    printf("open\n");
    fflush(stdout);
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        double seconds, duration;
        if (sscanf(line, "loop %lf %lf", &seconds, &duration) == 2) loop(seconds, duration);
        else if (strcmp(line, "write\n") == 0) { writeOnce("entry", 0); printf("written\n"); }
        else if (strcmp(line, "write anything\n") == 0) { writeOnce(NULL, 0); printf("written\n"); }
        else if (strcmp(line, "hold turn\n") == 0) hold(0, line, sizeof line);
        else if (strcmp(line, "hold transaction\n") == 0) hold(1, line, sizeof line);
        else if (strncmp(line, "rows ", 5) == 0) waitForRows(atoll(line + 5));
        else if (strcmp(line, "commit and die\n") == 0) commitAndDie();
        else if (strcmp(line, "misuse\n") == 0) misuse();
        else if (strcmp(line, "close\n") == 0) break;
        else if (strcmp(line, "\n") != 0) printf("unknown\n");
        fflush(stdout);
    }
    sqlite3_finalize(begin);
    sqlite3_finalize(insert);
    sqlite3_finalize(commit);
    check(roundtable_detach(handle, &error), "detach", error);
    check(roundtable_close(database, &error), "close", error);
    checkSQL(sqlite3_close(connection), "sqlite3_close");
    printf("closed\n");
    return 0;
}
