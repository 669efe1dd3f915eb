import BackgroundTasks
import Foundation

/// Applies the commands that wait in the outbox, from time to time while the app is not used. Without it, they wait for the next launch.
enum BackgroundRefresh {
    /// As in Info.plist: BGTaskSchedulerPermittedIdentifiers.
    static let identifier = "com.example.readinglist.refresh"

    static func schedule() {
        let request = BGAppRefreshTaskRequest(identifier: identifier)
        request.earliestBeginDate = Date(timeIntervalSinceNow: 3600)
        // An error means that the user has turned background refresh off: the commands wait for the next launch.
        try? BGTaskScheduler.shared.submit(request)
    }

    /// The system cancels this task when its time is up. An unfinished transaction is then rolled back, and its command waits.
    static func run() async {
        schedule()
        try? await AppStore.shared.store().refresh()
    }
}
