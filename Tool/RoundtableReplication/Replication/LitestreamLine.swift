import Foundation

/// One line that a running Litestream writes: an entry of its log, or plain text, as before the configuration is read and from the libraries
/// that it uses.
struct LitestreamLine: Equatable {
    let isError: Bool
    let text: String

    init(_ line: String) {
        if let entry = LitestreamLogEntry(line) {
            isError = entry.level == "ERROR"
            text = [entry.message, entry.fields["error"] ?? entry.fields["err"]].compactMap(\.self).joined(
                separator: ": "
            )
        } else {
            isError = ["Error: ", "panic:", "fatal error:"].contains { line.hasPrefix($0) }
            text = line.hasPrefix("Error: ") ? String(line.dropFirst("Error: ".count)) : line
        }
    }
}
