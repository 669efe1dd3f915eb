import Foundation
import RoundtableToolSupport

/// The URL of a replica, as Litestream takes it, which may hold credentials.
struct ReplicaURL: Equatable, Sendable {
    /// The URL itself. It is passed to Litestream, and never shown.
    let text: String
    /// The kind of the replica, as `s3`.
    let scheme: String

    /// The kinds of replicas that Litestream 0.5 knows.
    private static let schemes: Set = ["file", "s3", "gs", "abs", "oss", "sftp", "webdav", "webdavs", "nats"]

    /// - throws: `ToolError` when it is no URL of a replica. The error shows no part of it that may be a credential.
    init(_ text: String) throws(ToolError) {
        guard !text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else {
            throw ToolError(
                "the replica's URL has a line break or another control character. Write it as %0A, or remove it."
            )
        }
        guard let match = text.firstMatch(of: /^([A-Za-z][A-Za-z0-9+.-]*):\/\//) else {
            let path = text.hasPrefix("file:") ? String(text.dropFirst(5)) : text
            let hint = Self.absolute(path).map { ", or \($0) for that folder" } ?? ""
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
        if scheme == "file" {
            if rest.hasPrefix("/") { return }
            let hint =
                Self.absolute(String(rest)).map { ": \($0), or file:///\(rest)" } ?? ", and neither a user nor a host"
            throw ToolError("a file URL has three slashes\(hint).")
        }
        let authority = rest.prefix { !"/?#".contains($0) }
        if authority.isEmpty {
            throw ToolError(
                "the replica's URL has no \(scheme == "s3" ? "bucket: s3://bucket/path" : "host: \(scheme)://host/path")."
            )
        }
        var parts = ShownParts()
        if parts.authority(authority) == nil {
            throw ToolError(
                "the host of the replica's URL is not understood. If it has a password, write its special characters as '%' and two digits (/ as %2F, : as %3A)."
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

    /// The `file` URL of a folder; nil if the text may be something else than a path.
    private static func absolute(_ path: String) -> String? {
        guard path.wholeMatch(of: /[A-Za-z0-9 ._\/~-]+/) != nil else { return nil }
        return "file://\(URL(fileURLWithPath: path).standardizedFileURL.path)"
    }

    /// The scheme, host, port, bucket and path, and the parameters that are known to hold no credentials.
    var shown: String { parts.shown }

    /// The parts that are not shown.
    var secrets: Secrets { parts.secrets }

    /// Another text, such as a message of Litestream's, without the credentials of this URL.
    func redacting(_ text: String) -> String { secrets.redacting(text) }

    private var parts: (shown: String, secrets: Secrets) {
        var parts = ShownParts()
        let rest = text.dropFirst(scheme.count + 3)
        let authority = scheme == "file" ? "" : rest.prefix { !"/?#".contains($0) }
        var shown = "\(scheme)://\(authority.isEmpty ? "" : parts.authority(authority) ?? Secrets.mark)"
        let path = rest.dropFirst(authority.count).prefix { !"?#".contains($0) }
        // A password with a slash, whose beginning looks like a port, ends there.
        if path.contains("@"), authority.contains(":"), !authority.contains("@") {
            parts.hide(path)
            _ = parts.authority(path.dropFirst())
            shown += "/\(Secrets.mark)"
        } else {
            shown += path
        }
        let end = rest.dropFirst(authority.count + path.count)
        let query = end.prefix { $0 != "#" }
        if !query.isEmpty {
            let items = query.dropFirst().split(separator: "&").map { item in
                let pair = item.split(separator: "=", maxSplits: 1)
                guard pair.count == 2 else {
                    parts.hide(item)
                    return Secrets.mark
                }
                return parts.value(of: pair[0], pair[1]).map { "\(pair[0])=\($0)" } ?? Secrets.mark
            }
            shown += "?" + items.joined(separator: "&")
        }
        if query.count < end.count {
            parts.hide(end.dropFirst(query.count + 1))
            shown += "#\(Secrets.mark)"
        }
        return (shown, Secrets(parts.hidden))
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
