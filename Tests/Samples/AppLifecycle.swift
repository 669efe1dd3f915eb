// For iOS.

import UIKit
import WidgetKit

func store(_ notification: [AnyHashable: Any]) async throws {}

struct PlayersEntry: TimelineEntry {
    var date = Date.now
    var text: String
}

extension Provider {
    func placeholder(in context: Context) -> PlayersEntry { PlayersEntry(text: "–") }
    func getSnapshot(in context: Context, completion: @escaping (PlayersEntry) -> Void) {}
}

/// That of a `UIViewController`.
var extensionContext: NSExtensionContext? { nil }
