import Foundation

/// A URI of SQLite: the path of a database, and parameters that say how to open it ([Uniform Resource
/// Identifiers](https://www.sqlite.org/uri.html)).
///
/// The path is the plain one: whatever has a meaning in a URI, such as `?`, `#`, `%` or a space, is escaped when the URI is written.
///
/// ```swift
/// let catalogue = DatabaseURI(path: "/media/100% wool?.sqlite", mode: .readOnly, isImmutable: true)
/// print(catalogue)  // file:///media/100%25%20wool%3F.sqlite?mode=ro&immutable=1
/// ```
public struct DatabaseURI: Sendable, Hashable {
    /// The path of the file, absolute or relative to the current directory; the name of a database in memory; empty for a temporary one.
    public var path: String

    /// `cache`: whether the connections of this process to one file share a page cache. nil: as SQLite was told, by default not.
    public var cache: Cache?

    /// `mode`: what may be done with the file. nil: as whoever opens it says.
    public var mode: Mode?

    /// `immutable`: the file cannot change, as on a read-only medium: SQLite takes no locks and looks for no changes. If it does change all the
    /// same, results are wrong.
    public var isImmutable = false

    /// `nolock`: no locks are taken. Whoever else has the file open can corrupt it, or meet what is half written.
    public var isUnlocked = false

    /// `vfs`: the name of the operating system interface. nil: the default one.
    public var vfs: String?

    /// `psow`: whether a write that a power cut interrupts leaves the bytes beside it as they are. nil: as SQLite was built, usually true.
    public var isPowersafeOverwrite: Bool?

    /// `modeof`: the path of the file that a new one takes its permissions from.
    public var permissionsOf: String?

    /// Parameters that SQLite does not know, which a VFS may.
    public var otherParameters: [Parameter] = []

    public enum Cache: String, Sendable, CaseIterable {
        case `private`, shared
    }

    public enum Mode: String, Sendable, CaseIterable {
        case readOnly = "ro"
        /// The file must exist.
        case readWrite = "rw"
        /// It is created if it does not exist.
        case readWriteCreate = "rwc"
        case memory
    }

    /// One `name=value` of a query.
    public struct Parameter: Sendable, Hashable {
        public var name: String
        public var value: String

        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    public init(
        path: String,
        cache: Cache? = nil,
        mode: Mode? = nil,
        isImmutable: Bool = false,
        isUnlocked: Bool = false,
        vfs: String? = nil,
        isPowersafeOverwrite: Bool? = nil,
        permissionsOf: String? = nil,
        otherParameters: [Parameter] = []
    ) {
        self.path = path
        self.cache = cache
        self.mode = mode
        self.isImmutable = isImmutable
        self.isUnlocked = isUnlocked
        self.vfs = vfs
        self.isPowersafeOverwrite = isPowersafeOverwrite
        self.permissionsOf = permissionsOf
        self.otherParameters = otherParameters
    }

    /// Whether nothing but this process's memory, or a file without a name, holds the database.
    var isInMemory: Bool { mode == .memory || path == ":memory:" }
    var isTemporary: Bool { path.isEmpty && mode != .memory }
    var mayWrite: Bool { mode != .readOnly && !isImmutable }
}

extension DatabaseURI: CustomStringConvertible {
    /// What SQLite is given.
    public var description: String {
        // An absolute path follows an empty authority: one that begins with two slashes would be taken for an authority itself.
        let uri = (path.utf8.first == UInt8(ascii: "/") ? "file://" : "file:") + Self.escaped(path)
        let query = parameters.map { "\(Self.escaped($0.name))=\(Self.escaped($0.value))" }.joined(separator: "&")
        return query.isEmpty ? uri : "\(uri)?\(query)"
    }

    private var parameters: [Parameter] {
        var parameters: [Parameter] = []
        func add(_ name: String, _ value: String?) {
            if let value { parameters.append(Parameter(name, value)) }
        }
        add("cache", cache?.rawValue)
        add("mode", mode?.rawValue)
        add("immutable", isImmutable ? "1" : nil)
        add("nolock", isUnlocked ? "1" : nil)
        add("vfs", vfs)
        add("psow", isPowersafeOverwrite.map { $0 ? "1" : "0" })
        add("modeof", permissionsOf)
        return parameters + otherParameters
    }

    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for byte in text.utf8 {
            let scalar = Unicode.Scalar(byte)
            switch scalar {
            case "a"..."z", "A"..."Z", "0"..."9", "-", ".", "_", "~", "/": escaped.unicodeScalars.append(scalar)
            default:
                escaped +=
                    "%" + String(byte >> 4, radix: 16, uppercase: true) + String(byte & 15, radix: 16, uppercase: true)
            }
        }
        return escaped
    }
}

// MARK: - Reading

extension DatabaseURI {
    /// Reads a URI as SQLite does.
    ///
    /// - throws: ``DatabaseLocationError/invalidURI(_:reason:)`` for what SQLite would refuse, and for what it would ignore without a word: a
    ///   parameter that is named twice, a path that an escaped NUL cuts short.
    public init(_ uri: String) throws {
        func invalid(_ reason: String) -> DatabaseLocationError { .invalidURI(uri, reason: reason) }
        // Bytes, as SQLite: a character is also a delimiter with a mark that combines with it.
        var rest = uri.utf8[...]
        guard rest.starts(with: "file:".utf8) else {
            throw invalid("it does not begin with file:; of a path, it is DatabaseURI(path:)")
        }
        rest = rest.dropFirst("file:".utf8.count)
        if rest.starts(with: "//".utf8) {
            rest = rest.dropFirst(2)
            let authority = rest.prefix { $0 != UInt8(ascii: "/") }
            guard authority.isEmpty || authority.elementsEqual("localhost".utf8) else {
                throw invalid("the host '\(Substring(authority))' is not this one: write file:/// and the path")
            }
            rest = rest.dropFirst(authority.count)
        }
        let fragment = rest.drop { $0 != UInt8(ascii: "#") }
        guard !fragment.contains(UInt8(ascii: "?")) else {
            throw invalid("'\(Substring(fragment))' would be ignored: write %23 for a # that belongs to the name")
        }
        rest = rest.prefix { $0 != UInt8(ascii: "#") }
        let path = rest.prefix { $0 != UInt8(ascii: "?") }
        let query = rest.dropFirst(path.count + 1)
        func text(_ part: Substring.UTF8View) throws -> String {
            guard let text = Self.unescaped(part) else {
                throw invalid("what is escaped in '\(Substring(part))' is no text")
            }
            guard !text.utf8.contains(0) else {
                throw invalid("'\(Substring(part))' contains a NUL, where SQLite would cut it")
            }
            return text
        }
        self.init(path: try text(path))
        var names: Set<[UInt8]> = []
        for part in query.split(separator: UInt8(ascii: "&")) {
            let sides = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let parameter = Parameter(try text(sides[0]), sides.count > 1 ? try text(sides[1]) : "")
            guard names.insert(Array(parameter.name.utf8)).inserted else {
                throw invalid("'\(parameter.name)' is there twice")
            }
            do {
                try read(parameter)
            } catch let error as BadValue {
                throw invalid("'\(parameter.value)' is no value of '\(parameter.name)': \(error.expected)")
            }
        }
    }

    /// - throws: ``DatabaseLocationError/invalidURI(_:reason:)`` for what SQLite would take for another than its author meant, or than
    ///   the properties say.
    func checked() throws(DatabaseLocationError) -> DatabaseURI {
        func invalid(_ reason: String) -> DatabaseLocationError { .invalidURI(description, reason: reason) }
        let texts =
            [path, vfs ?? "", permissionsOf ?? ""] + otherParameters.flatMap { [$0.name, $0.value] }
        if let text = texts.first(where: { $0.utf8.contains(0) }) {
            throw invalid("\(text.debugDescription) contains a NUL, where SQLite would cut it")
        }
        var names: Set<[UInt8]> = []
        for name in otherParameters.map(\.name) {
            if name.isEmpty { throw invalid("a parameter without a name is none") }
            if Self.knownNames.contains(name) {
                throw invalid("'\(name)' has a property of its own: it is not one of the other parameters")
            }
            guard names.insert(Array(name.utf8)).inserted else { throw invalid("'\(name)' is there twice") }
        }
        return self
    }

    private static let knownNames: Set = ["cache", "mode", "immutable", "nolock", "vfs", "psow", "modeof"]

    private struct BadValue: Error {
        let expected: String
    }

    private mutating func read(_ parameter: Parameter) throws {
        func oneOf<Value: RawRepresentable & CaseIterable>(_: Value.Type) throws -> Value
        where Value.RawValue == String {
            if let value = Value(rawValue: parameter.value) { return value }
            throw BadValue(expected: Value.allCases.map(\.rawValue).joined(separator: ", "))
        }
        func flag() throws -> Bool {
            switch parameter.value.lowercased() {
            case "1", "on", "yes", "true": return true
            case "0", "off", "no", "false": return false
            default: throw BadValue(expected: "1 or 0")
            }
        }
        switch parameter.name {
        case "cache": cache = try oneOf(Cache.self)
        case "mode": mode = try oneOf(Mode.self)
        case "immutable": isImmutable = try flag()
        case "nolock": isUnlocked = try flag()
        case "vfs": vfs = parameter.value
        case "psow": isPowersafeOverwrite = try flag()
        case "modeof": permissionsOf = parameter.value
        default: otherParameters.append(parameter)
        }
    }

    /// nil for what is not UTF-8. A `%` without two digits stays, as SQLite has it.
    private static func unescaped(_ text: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            let digits = rest.prefix(2)
            guard byte == UInt8(ascii: "%"), digits.count == 2,
                digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
                let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
            else {
                bytes.append(byte)
                continue
            }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(bytes: bytes, encoding: .utf8)
    }
}
