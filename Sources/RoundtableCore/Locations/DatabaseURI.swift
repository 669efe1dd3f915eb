import Foundation

/// A SQLite URI: the path of a database, and parameters that say how to open it ([Uniform Resource
/// Identifiers](https://www.sqlite.org/uri.html)).
///
/// The path is given unescaped: `description` escapes characters that have a meaning in a URI, such as `?`, `#`, `%` and space.
///
/// ```swift
/// let catalogue = DatabaseURI(path: "/media/100% wool?.sqlite", mode: .readOnly, isImmutable: true)
/// print(catalogue)  // file:///media/100%25%20wool%3F.sqlite?mode=ro&immutable=1
/// ```
public struct DatabaseURI: Sendable, Hashable {
    /// The path of the file, absolute or relative to the current directory; the name of a database in memory; empty for a temporary one.
    public var path: String

    /// `cache`: whether the connections of this process to one file share a page cache. nil: SQLite's setting, which is off by default.
    public var cache: Cache?

    /// `mode`: how the file may be accessed. nil: as the function that opens it says.
    public var mode: Mode?

    /// `immutable`: the file cannot change, as on a read-only medium. SQLite then takes no locks and does not check for changes. If the
    /// file changes nevertheless, results are wrong.
    public var isImmutable = false

    /// `nolock`: no locks are taken. Another connection to the file can then corrupt it, or read data that is only half written.
    public var isUnlocked = false

    /// `vfs`: the name of the VFS, SQLite's operating system interface. nil: the default one.
    public var vfs: String?

    /// `psow`: whether a write that a power failure interrupts leaves the adjacent bytes unchanged. nil: SQLite's compile-time setting,
    /// usually true.
    public var isPowersafeOverwrite: Bool?

    /// `modeof`: the path of the file from which a new file takes its permissions.
    public var permissionsOf: String?

    /// Parameters that SQLite does not know. A VFS may know them.
    public var otherParameters: [Parameter] = []

    /// The values of the `cache` parameter.
    public enum Cache: String, Sendable, CaseIterable {
        case `private`, shared
    }

    /// The values of the `mode` parameter.
    public enum Mode: String, Sendable, CaseIterable {
        case readOnly = "ro"
        /// The file must exist.
        case readWrite = "rw"
        /// The file is created if it does not exist.
        case readWriteCreate = "rwc"
        case memory
    }

    /// One `name=value` of the query.
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

    /// Whether the database is in the memory of this process only.
    var isInMemory: Bool { mode == .memory || path == ":memory:" }
    var isTemporary: Bool { path.isEmpty && mode != .memory }
    var mayWrite: Bool { mode != .readOnly && !isImmutable }
}

extension DatabaseURI: CustomStringConvertible {
    /// The URI as it is passed to SQLite.
    public var description: String {
        // An absolute path follows an empty authority, because a path that begins with two slashes would be read as an authority.
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
    /// - throws: ``DatabaseLocationError/invalidURI(_:reason:)`` for a URI that SQLite would reject, and for parts that it would silently
    ///   ignore: a parameter that is named twice, or a path that an escaped NUL cuts short.
    public init(_ uri: String) throws {
        func invalid(_ reason: String) -> DatabaseLocationError { .invalidURI(uri, reason: reason) }
        // The URI is parsed by bytes, as SQLite does. In a Swift string, a delimiter followed by a combining mark would be another
        // character.
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
                throw invalid("the % escapes in '\(Substring(part))' are not UTF-8")
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
                throw invalid("'\(parameter.value)' is not a value of '\(parameter.name)': \(error.expected)")
            }
        }
    }

    /// Checks that SQLite reads the URI as its properties say.
    ///
    /// - throws: ``DatabaseLocationError/invalidURI(_:reason:)`` if a text contains a NUL, or if one of `otherParameters` has no name, is
    ///   named twice, or has a property of its own.
    func checked() throws(DatabaseLocationError) -> DatabaseURI {
        func invalid(_ reason: String) -> DatabaseLocationError { .invalidURI(description, reason: reason) }
        let texts =
            [path, vfs ?? "", permissionsOf ?? ""] + otherParameters.flatMap { [$0.name, $0.value] }
        if let text = texts.first(where: { $0.utf8.contains(0) }) {
            throw invalid("\(text.debugDescription) contains a NUL, where SQLite would cut it")
        }
        var names: Set<[UInt8]> = []
        for name in otherParameters.map(\.name) {
            if name.isEmpty { throw invalid("a parameter has no name") }
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

    /// Decodes percent escapes. A `%` without two digits is kept, as in SQLite.
    ///
    /// - returns: nil when the result is not UTF-8.
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
