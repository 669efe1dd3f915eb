import Foundation
import RoundtableFiles

/// An object of the store, as a listing shows it (rule Z1).
struct StoreObject: Equatable, Sendable {
    /// The path below the store.
    let path: String
    let size: Int
    let name: Name

    enum Name: Equatable, Sendable {
        case command(route: UUID, String)
        case list(route: UUID, StoreMark)
        case outcomes(route: UUID, StoreMark)
        case claim(collector: UUID, StoreMark)
        case snapshot(StoredSnapshot)
        /// An upload that the store or `rclone` has left unfinished, in the folders of a route.
        case remains(route: UUID)
        case other
    }

    init(path: String, size: Int) {
        self.path = path
        self.size = size
        name = Name(path)
    }

    static func command(_ name: String, of route: UUID) -> String { "\(commands(of: route))/\(name)" }
    static func commands(of route: UUID) -> String { "routes/\(route)/commands" }
    static func list(_ mark: StoreMark, of route: UUID) -> String { "routes/\(route)/\(mark).list" }
    static func outcomes(_ mark: StoreMark, of route: UUID) -> String { "routes/\(route)/\(mark).outcomes" }
    static func claim(_ mark: StoreMark, of collector: UUID) -> String { "collectors/\(collector)-\(mark).collector" }
}

/// A snapshot file in the store (rule Z11).
struct StoredSnapshot: Equatable, Sendable {
    let number: UInt64
    /// The checksum of the header, which differs from value to value.
    let sum: UInt64
    let name: String

    var path: String { "snapshots/\(number.digits)-\(sum.digits).\(name)" }

    /// Whether a file of that name can be published, and taken. Names are parts of paths, and lines of listings; and who may write the store
    /// must not write what a database beside the snapshot files obeys, such as its fence.
    static func isUsable(_ name: String) -> Bool {
        !name.isEmpty && !name.hasPrefix(".") && name.utf8.count <= 180
            && !DatabaseCompanions.isReserved(name)
            && !name.unicodeScalars.contains { $0 == "/" || $0.properties.generalCategory == .control }
    }
}

extension StoreObject.Name {
    init(_ path: String) {
        self = Self.parse(path.split(separator: "/", omittingEmptySubsequences: false)) ?? .other
    }

    private static func parse(_ parts: [Substring]) -> Self? {
        switch (parts.first, parts.count) {
        case ("routes", 3):
            guard let route = uuid(parts[1]) else { return nil }
            if let mark = mark(parts[2], ".list") { return .list(route: route, mark) }
            if let mark = mark(parts[2], ".outcomes") { return .outcomes(route: route, mark) }
            return parts[2].hasSuffix(".partial") ? .remains(route: route) : nil
        case ("routes", 4):
            guard let route = uuid(parts[1]), parts[2] == "commands" else { return nil }
            if let name = CommandFileName(String(parts[3])) { return .command(route: route, "\(name)") }
            return parts[3].hasSuffix(".partial") ? .remains(route: route) : nil
        case ("collectors", 2):
            guard parts[1].count > 37, let mark = mark(parts[1].dropFirst(37), ".collector"),
                let id = uuid(parts[1].prefix(36)), parts[1].dropFirst(36).first == "-"
            else { return nil }
            return .claim(collector: id, mark)
        case ("snapshots", 2):
            let text = parts[1]
            guard let dot = text.firstIndex(of: "."), let mark = StoreMark(text[..<dot]) else { return nil }
            let name = String(text[text.index(after: dot)...])
            guard StoredSnapshot.isUsable(name) else { return nil }
            return .snapshot(StoredSnapshot(number: mark.sequence, sum: mark.token, name: name))
        default: return nil
        }
    }

    private static func uuid(_ text: some StringProtocol) -> UUID? {
        UUID(uuidString: String(text)).flatMap { $0.uuidString == text ? $0 : nil }
    }

    private static func mark(_ text: Substring, _ ending: String) -> StoreMark? {
        text.hasSuffix(ending) ? StoreMark(text.dropLast(ending.count)) : nil
    }
}
