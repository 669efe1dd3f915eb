import Foundation

/// A file URL as SQLite reads it: a path, and parameters that say how to open it
/// ([Uniform Resource Identifiers](https://www.sqlite.org/uri.html)).
struct DatabaseURI: Equatable {
    /// The path of a file, absolute or relative to the current directory; the name of a database in memory; empty for a temporary one.
    let path: String

    /// The parameters with their decoded values. No name is there twice.
    private(set) var parameters: [URLQueryItem] = []

    init(path: String, _ parameters: [URLQueryItem] = []) {
        self.path = path
        self.parameters = parameters
    }

    /// - throws: ``SharedDatabaseError/notAFileURL(_:)``; ``DatabaseLocationError/invalidURI(_:reason:)`` for a URL that SQLite would reject,
    ///   and for parts that SQLite would silently ignore: a parameter that is named twice, or what follows an escaped NUL.
    init(_ url: URL) throws {
        // Most URLs are a path alone. Foundation's components cost as much as a twentieth of an opening.
        let plain = url.absoluteString.utf8
        if plain.starts(with: "file:///".utf8), !plain.contains(where: "%?#".utf8.contains) {
            path = Self.withoutFinalSlash(String(decoding: plain.dropFirst("file://".utf8.count), as: UTF8.self))
            return
        }
        guard url.isFileURL, let parts = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
            throw SharedDatabaseError.notAFileURL(url)
        }
        func invalid(_ reason: String) -> DatabaseLocationError { .invalidURI(url.absoluteString, reason: reason) }
        func text(_ encoded: String) throws -> String {
            guard let text = encoded.removingPercentEncoding else {
                throw invalid("the % escapes in '\(encoded)' are not UTF-8: rename a file with such a name")
            }
            if text.utf8.contains(0) { throw invalid("'\(encoded)' contains a NUL, where SQLite would cut it") }
            return text
        }
        // Foundation takes an escaped slash for a part of a name, and SQLite for a slash.
        if parts.percentEncodedPath.range(of: "%2F", options: .caseInsensitive) != nil {
            throw invalid("a name contains an escaped slash: write / between folders")
        }
        path = Self.withoutFinalSlash(try text(parts.percentEncodedPath))
        if let host = parts.host, !["", "localhost"].contains(host) {
            throw invalid("the host '\(host)' is not this one: write file:/// and the path")
        }
        if parts.host != nil, path.isEmpty { throw invalid("it has no path: write file:/// and the path") }
        if let fragment = parts.percentEncodedFragment, fragment.contains("?") {
            throw invalid("'#\(fragment)' would be ignored: write %23 for a # that belongs to the name")
        }
        for item in parts.percentEncodedQueryItems ?? [] where !(item.name.isEmpty && item.value == nil) {
            // A URL of a security-scoped bookmark has this of Foundation. It is for the system, which the process has asked by now.
            if item.name == "applesecurityscope" { continue }
            let (name, value) = (try text(item.name), try text(item.value ?? ""))
            if name.isEmpty { throw invalid("a parameter has no name") }
            // SQLite compares bytes, and Swift compares characters.
            if parameters.contains(where: { $0.name.utf8.elementsEqual(name.utf8) }) {
                throw invalid("'\(name)' is there twice")
            }
            if let expected = Self.expectation(name, value) {
                throw invalid("'\(value)' is not a value of '\(name)': \(expected)")
            }
            parameters.append(URLQueryItem(name: name, value: value))
        }
    }

    /// A URL of a folder ends with a slash. A database is a file.
    private static func withoutFinalSlash(_ path: String) -> String {
        var path = path
        while path.utf8.count > 1, path.utf8.last == UInt8(ascii: "/") { path.unicodeScalars.removeLast() }
        return path
    }

    /// The values that SQLite accepts for a parameter; nil if `value` is one of them.
    private static func expectation(_ name: String, _ value: String) -> String? {
        switch name {
        case "cache": ["private", "shared"].contains(value) ? nil : "private, shared"
        case "mode": ["ro", "rw", "rwc", "memory"].contains(value) ? nil : "ro, rw, rwc, memory"
        case "immutable", "nolock", "psow": (on + off).contains(value.lowercased()) ? nil : "1 or 0"
        default: nil
        }
    }

    private static let on = ["1", "on", "yes", "true"]
    private static let off = ["0", "off", "no", "false"]

    subscript(name: String) -> String? {
        get { parameters.first { $0.name == name }?.value }
        set {
            parameters.removeAll { $0.name == name }
            if let newValue { parameters.append(URLQueryItem(name: name, value: newValue)) }
        }
    }

    func isOn(_ name: String) -> Bool { self[name].map { Self.on.contains($0.lowercased()) } ?? false }

    /// Whether the database is in the memory of this process only.
    var isInMemory: Bool { self["mode"] == "memory" || path == ":memory:" }
    var isTemporary: Bool { path.isEmpty && !isInMemory }
    var isReadOnly: Bool { self["mode"] == "ro" || isOn("immutable") }
    private var isAbsolute: Bool { path.utf8.first == UInt8(ascii: "/") }

    /// The name that SQLite opens: the path where it is sufficient, so that GRDB's `path` is what its users expect; otherwise the URI.
    var name: String { parameters.isEmpty && (isAbsolute || path.isEmpty) ? path : description }
}

extension DatabaseURI: CustomStringConvertible {
    var description: String {
        var parts = URLComponents()
        parts.scheme = "file"
        // An absolute path follows an empty authority, because a path that begins with two slashes would be read as an authority.
        if isAbsolute { parts.host = "" }
        parts.path = path
        if !parameters.isEmpty { parts.queryItems = parameters }
        return parts.string ?? path
    }
}
