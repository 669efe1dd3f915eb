#if os(Linux)
    import Foundation

    /// Makes victims forget syncs, to see that the check notices.
    enum ForgottenSyncs {
        /// The environment of victims that forget.
        ///
        /// - parameter folder: where the library is compiled that they preload.
        static func environment(_ syncs: IgnoredSyncs, in folder: URL) throws -> [String: String] {
            guard syncs != .none else { return [:] }
            let library = try PreloadedLibrary.compile(source, named: "forget", in: folder)
            var environment = PreloadedLibrary.environment(preloading: library)
            environment["ROUNDTABLE_POWERCUT_FORGET"] = syncs.rawValue
            environment["ROUNDTABLE_POWERCUT_DATABASE"] = PowerCutPlaces.databaseName
            return environment
        }

        /// The names are those of `IgnoredSyncs.contains(_:isFolder:)`.
        private static let source = #"""
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <limits.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <string.h>
            #include <sys/stat.h>
            #include <unistd.h>

            static int ends(const char *name, const char *ending) {
                size_t length = strlen(name), wanted = strlen(ending);
                return length >= wanted && !strcmp(name + length - wanted, ending);
            }

            static int is_forgotten(int fd) {
                char link[64], path[PATH_MAX];
                struct stat status;
                const char *kind = getenv("ROUNDTABLE_POWERCUT_FORGET"), *database = getenv("ROUNDTABLE_POWERCUT_DATABASE");
                if (!kind || !database || fstat(fd, &status)) return 0;
                if (S_ISDIR(status.st_mode)) return !strcmp(kind, "folder");
                snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
                ssize_t length = readlink(link, path, sizeof path - 1);
                if (length < 0) return 0;
                path[length] = 0;
                const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
                if (!strcmp(kind, "wal")) return ends(name, "-wal");
                if (!strcmp(kind, "database")) return !strcmp(name, database);
                if (!strcmp(kind, "snapshot")) return strstr(name, ".snapshot") != NULL;
                if (!strcmp(kind, "outbox")) return ends(name, ".command") || !strncmp(name, "outbox.", 7);
                return 0;
            }

            #define SYNC(call) \
                int call(int fd) { \
                    static int (*next)(int); \
                    if (!next) next = (int (*)(int)) dlsym(RTLD_NEXT, #call); \
                    return is_forgotten(fd) ? 0 : next(fd); \
                }
            SYNC(fsync)
            SYNC(fdatasync)
            """#
    }
#endif
