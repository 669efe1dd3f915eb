import Foundation
import RoundtableKernel

/// Announces the creation of a database in the container of an App Group to other processes that coordinate access to its files, as
/// GRDB's guide on sharing recommends.
///
/// Roundtable's own processes do not need this, because they wait for each other by their turn (rule S2). So coordination is attempted
/// for 2 s only, and if that fails, the database is created without it. An existing file is opened without coordination, because
/// coordination is held across a suspension and would block other processes.
enum FileCoordination {
    static func perform<T>(_ file: DatabaseFile, _ create: () throws -> T) throws -> T {
        #if canImport(Darwin)
            guard file.isAbsentOrEmpty, AppContainer.isShared(file.path) else { return try create() }
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

        // @unchecked: only `cancel` is called, which may be called from any thread. Once the accessor runs, it does nothing.
        private final class Canceller: @unchecked Sendable {
            private let coordinator: NSFileCoordinator
            init(_ coordinator: NSFileCoordinator) { self.coordinator = coordinator }
            func cancel() { coordinator.cancel() }
        }
    #endif
}
