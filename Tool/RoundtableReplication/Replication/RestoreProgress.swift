import Foundation
import Roundtable
import RoundtableKernel
import Synchronization

/// Shows on standard error how far a restore is: a bar on a terminal, else a line every 10 s.
package final class RestoreProgress: Sendable {
    package enum Style { case none, lines, bar }

    private struct State {
        var lastShown: ContinuousClock.Instant
        var isDrawn = false
    }

    private let style: Style
    private let state: Mutex<State>
    private let write: @Sendable (String) -> Void

    package init(
        _ style: Style,
        now: ContinuousClock.Instant = .now,
        write: @escaping @Sendable (String) -> Void = { FileHandle.standardError.write(Data($0.utf8)) }
    ) {
        self.style = style
        self.write = write
        state = Mutex(State(lastShown: now))
    }

    package func show(_ text: @autoclosure () -> String, now: ContinuousClock.Instant = .now) {
        let interval: Duration = style == .bar ? .milliseconds(100) : .seconds(10)
        guard style != .none else { return }
        let isDue = state.withLock { state in
            guard now - state.lastShown >= interval else { return false }
            state.lastShown = now
            state.isDrawn = style == .bar
            return true
        }
        guard isDue else { return }
        write(style == .bar ? "\r\u{1B}[K\(text())" : "\(text())\n")
    }

    /// Removes the bar.
    package func clear() {
        if state.withLock({ $0.isDrawn }) { write("\r\u{1B}[K") }
        state.withLock { $0.isDrawn = false }
    }

    /// How many bytes of the database are restored.
    ///
    /// - parameter expected: the size of the database; nil while it is not known.
    static func text(_ bytes: Int, of expected: Int?, fetching size: Int, style: Style) -> String {
        guard let expected, expected > 0 else {
            return bytes == 0
                ? "fetching \(size.byteSize) of the backup …" : "restored \(bytes.byteSize)"
        }
        let share = min(1, Double(bytes) / Double(expected))
        let amount = "restored \(bytes.byteSize) of \(expected.byteSize) (\(Int(share * 100)) %)"
        guard style == .bar else { return amount }
        let width = 30
        let filled = Int(share * Double(width))
        return String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled) + " \(amount)"
    }
}

/// The file that Litestream is writing. It is no database that this process has open.
struct GrowingFile {
    let folder: OpenFolder
    let name: String

    var size: Int { (try? folder.status(ofFile: name)).map { Int($0.st_size) } ?? 0 }

    /// The size that the file will have, from its first page (<https://www.sqlite.org/fileformat2.html#the_database_header>); nil before
    /// that is written.
    var expectedSize: Int? {
        (try? folder.contents(ofFile: name, limit: 100)).flatMap { Self.databaseSize(header: $0) }
    }

    static func databaseSize(header: [UInt8]) -> Int? {
        guard header.count >= 32, header.starts(with: Array("SQLite format 3\0".utf8)) else { return nil }
        func number(_ range: Range<Int>) -> Int { header[range].reduce(0) { $0 << 8 | Int($1) } }
        let pageSize = number(16..<18) == 1 ? 65536 : number(16..<18)
        let size = pageSize * number(28..<32)
        return size > 0 ? size : nil
    }

    /// The free bytes of the file system; nil when that is not known.
    var freeSpace: Int? {
        let attributes = try? FileManager.default.attributesOfFileSystem(forPath: folder.path)
        return (attributes?[.systemFreeSize] as? NSNumber)?.intValue
    }
}
