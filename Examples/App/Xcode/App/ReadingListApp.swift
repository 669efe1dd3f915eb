import ReadingList
import ReadingListStore
import SwiftUI

@main struct ReadingListApp: App {
    @Environment(\.scenePhase) private var scenePhase
    @State private var model = ReadingListModel()

    init() {
        AppProcess.perform = { try await AppStore.shared.store().perform($0) }
    }

    // Suspending and resuming the database is not to be seen here: the library follows the app's lifecycle by itself.
    var body: some Scene {
        WindowGroup { ArticlesView(model: model) }
            .onChange(of: scenePhase) { _, phase in
                if phase == .background { BackgroundRefresh.schedule() }
            }
            .backgroundTask(.appRefresh(BackgroundRefresh.identifier)) { await BackgroundRefresh.run() }
    }
}
