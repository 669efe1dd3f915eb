import Foundation
import ReadingList
import RoundtableFiles

// share FOLDER URL …   plays the share extension: submits links, and waits a moment for the app's answer to each

@main
struct Share {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        let urls = arguments.dropFirst().compactMap { URL(string: $0) }
        guard let folder = arguments.first, !urls.isEmpty, urls.count == arguments.count - 1 else {
            print("usage: share FOLDER URL …")
            exit(64)
        }
        let files = try SharedFiles(in: URL(fileURLWithPath: folder).appendingPathComponent("group"))
        let outbox = try files.outbox(as: "share")
        for url in urls {
            // It is on the disk when `submit` returns: the app applies it exactly once, now or when it runs again.
            let submission = try await outbox.submit(AddLink(url: url))
            print(try await submission.outcome(within: .milliseconds(500)))
        }
    }
}
