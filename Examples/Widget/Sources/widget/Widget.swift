import Foundation
import Journal
import RoundtableFiles

// widget FOLDER            shows what the app has published
// widget FOLDER add TEXT   asks the app to add an entry, and waits 5 s for its answer

@main
struct Widget {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard let folder = arguments.first, arguments.count == 1 || (arguments.count == 3 && arguments[2] == "add")
        else {
            print("usage: widget FOLDER [add TEXT]")
            exit(64)
        }
        let files = try JournalFiles(in: URL(fileURLWithPath: folder), as: "widget")

        if arguments.count == 3 {
            // It is on the disk when `submit` returns: the app applies it exactly once, now or when it starts.
            let submission = try await files.outbox().submit(AddEntry(text: arguments[3]))
            print(try await submission.outcome(within: .seconds(5)))
        } else {
            switch try files.snapshot.read() {
            case .value(let state, let info):
                print(
                    "\(state.entries) entries, the latest: \(state.latest ?? "none"), as of \(info.date.formatted(.iso8601))"
                )
            case .absent: print("Start the app first.")
            case .tooNew, .tooOld, .damaged: print("Nothing to show.")
            }
        }
    }
}
