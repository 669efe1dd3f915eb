import Foundation

/// Announces the creation of a database in the container of an App Group to whoever coordinates the access to its files, as Apple asks of
/// processes that share one, and GRDB's guide recommends.
///
/// It is for them that this is done: Roundtable's own processes wait for each other by their turn (rule S2). So it is tried for a
/// moment only, and without it, the database is created all the same. A file that exists is opened without: coordination is held across
/// a suspension, and would block the others.
enum CoordinatedCreation {
    static func perform<T>(_ file: DatabaseFile, _ create: () throws -> T) throws -> T {
        #if canImport(Darwin)
            guard file.isAbsentOrEmpty, AppGroupContainer.holds(file.path) else { return try create() }
            let coordinator = NSFileCoordinator(filePresenter: nil)
            let canceller = Canceller(coordinator)
            DispatchQueue.global().asyncAfter(deadline: .now() + patience) { canceller.cancel() }
            var result: Result<T, any Error>?
            var error: NSError?
            coordinator.coordinate(
                writingItemAt: URL(fileURLWithPath: file.path),
                options: .forMerging,
                error: &error
            ) { _ in
                result = Result { try create() }
            }
            return try result?.get() ?? create()
        #else
            return try create()
        #endif
    }

    #if canImport(Darwin)
        private static let patience = DispatchTimeInterval.seconds(2)

        private final class Canceller: @unchecked Sendable {
            // @unchecked: only `cancel` is called, which may be called from any thread. Once the accessor runs, it does nothing.
            private let coordinator: NSFileCoordinator
            init(_ coordinator: NSFileCoordinator) { self.coordinator = coordinator }
            func cancel() { coordinator.cancel() }
        }
    #endif
}
