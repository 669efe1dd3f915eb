import Foundation

/// The URL of a replica, as Litestream takes it, which may hold credentials.
struct ReplicaURL: Equatable, Sendable {
    /// The URL itself. It is passed to Litestream, and never shown.
    let text: String
    /// The kind of the replica, as `s3`.
    let scheme: String

    /// The kinds of replicas that Litestream 0.5 knows.
    private static let schemes: Set = ["file", "s3", "gs", "abs", "oss", "sftp", "webdav", "webdavs", "nats"]

    /// - throws: `ToolError` when it is no URL of a replica.
    init(_ text: String) throws(ToolError) {
        guard let match = text.firstMatch(of: /^([A-Za-z][A-Za-z0-9+.-]*):\/\//) else {
            let path = text.hasPrefix("file:") ? String(text.dropFirst(5)) : text
            let hint = path.isEmpty || text.contains("@") ? "" : ", or file://\(Self.absolute(path)) for that folder"
            throw ToolError(
                "the replica's URL needs a scheme: file:///folder, s3://bucket/path, sftp://user@host/path\(hint)."
            )
        }
        self.text = text
        scheme = match.1.lowercased()
        guard Self.schemes.contains(scheme) else {
            throw ToolError(
                "Litestream knows no replicas of the kind '\(scheme)'. Use file, s3, gs, abs, oss, sftp, webdav or nats."
            )
        }
        let rest = text.dropFirst(scheme.count + 3)
        if scheme == "file", !rest.hasPrefix("/") {
            throw ToolError("a file URL has three slashes: file:///\(rest), or file://\(Self.absolute(String(rest))).")
        }
        if scheme != "file", rest.prefix(while: { !"/?#".contains($0) }).isEmpty {
            throw ToolError(
                "\(text): has no \(scheme == "s3" ? "bucket: s3://bucket/path" : "host: \(scheme)://host/path")."
            )
        }
    }

    /// The folder of a `file` URL, whose characters may be encoded (`%20`); nil for other kinds. Litestream would not decode them, and encode
    /// others.
    var folder: String? {
        guard scheme == "file" else { return nil }
        let path = String(text.dropFirst("file://".count))
        return path.removingPercentEncoding ?? path
    }

    private init(_ text: String, scheme: String) { (self.text, self.scheme) = (text, scheme) }

    /// The URL of a folder below this one.
    func appending(_ path: String) -> ReplicaURL {
        // A file URL has no parameters.
        let end = scheme == "file" ? text.endIndex : text.firstIndex { $0 == "?" || $0 == "#" } ?? text.endIndex
        let base = text[..<end].hasSuffix("/") ? text[..<end].dropLast() : text[..<end]
        return ReplicaURL("\(base)/\(path)\(text[end...])", scheme: scheme)
    }

    private static func absolute(_ path: String) -> String {
        URL(fileURLWithPath: path).standardizedFileURL.path
    }

    /// The URL without credentials: without the user and the password, unless it is only a user, and without the values of parameters
    /// that may be secret.
    var shown: String { redacting(text) }

    /// Another text, such as a message of Litestream's, without the credentials of this URL.
    func redacting(_ text: String) -> String { secrets.redacting(text) }

    /// The credentials, as they are in the URL and decoded.
    private var secrets: Secrets {
        var found: [String] = []
        let rest = text.dropFirst(scheme.count + 3)
        let authority = rest.prefix { !"/?#".contains($0) }
        if let at = authority.lastIndex(of: "@") {
            let parts = authority[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { found.append(String(parts[1])) }
        }
        if let mark = rest.firstIndex(of: "?") {
            for item in rest[rest.index(after: mark)...].prefix(while: { $0 != "#" }).split(separator: "&") {
                let pair = item.split(separator: "=", maxSplits: 1)
                guard pair.count == 2, Secrets.mayBeSecret(parameter: pair[0].lowercased()) else { continue }
                found.append(String(pair[1]))
            }
        }
        return Secrets(found)
    }
}

/// The replica in a configuration of Litestream.
struct ReplicaConfiguration: Encodable {
    private let type: String?
    private let path: String?
    private let url: String?
    private let syncInterval: String?

    init(_ url: ReplicaURL, syncInterval: String? = nil) {
        path = url.folder
        type = path == nil ? nil : "file"
        self.url = path == nil ? url.text : nil
        self.syncInterval = syncInterval
    }

    enum CodingKeys: String, CodingKey { case type, path, url, syncInterval = "sync-interval" }
}
