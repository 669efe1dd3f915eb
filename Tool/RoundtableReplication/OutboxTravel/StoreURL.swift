import Foundation
import RoundtableToolSupport

/// Where a store is, as `rclone` takes it: the path of a folder, `remote:path`, or a connection string such as
/// `:s3,provider=Other,endpoint='http://host':bucket/path`, which may hold credentials.
struct StoreURL: Equatable, Sendable {
    /// The place for arguments of `rclone`, without credentials.
    let place: String
    /// The environment that defines the remote, with the parameters of a connection string. The arguments of a process are visible to all
    /// users, its environment is not.
    let environment: [String: String]
    /// The path of a folder; of a remote its name, its path, and the provider of a connection string.
    let shown: String
    /// The parameters of a connection string, except those that are known to hold no credentials.
    let secrets: Secrets

    /// The name of the remote that a connection string defines.
    private static let remote = "roundtable"

    /// - throws: `ToolError` when `rclone` would not understand it. The error shows no part of it that may be a credential.
    init(_ text: String) throws(ToolError) {
        guard !text.isEmpty, !text.hasPrefix("-"),
            !text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else {
            throw ToolError(
                "the store's place is empty, begins with '-', or has a line break or another control character. Give the path of a folder, or remote:path."
            )
        }
        if text.firstMatch(of: /^[A-Za-z][A-Za-z0-9+.-]*:\/\//) != nil {
            throw ToolError(
                """
                rclone takes no URLs with '://' (\(text.prefix { $0 != ":" })). Give the path of a folder, remote:path as 'rclone config' \
                defines it, or a connection string such as :s3,env_auth=true:bucket/path.
                """
            )
        }
        let head = text.prefix { $0 != "/" }
        guard let end = text.firstIndex(where: { $0 == ":" || $0 == "," }), end < head.endIndex || text.hasPrefix(":")
        else {
            place = URL(fileURLWithPath: text).standardizedFileURL.path
            (environment, shown, secrets) = ([:], place, Secrets([]))
            return
        }
        var parser = ConnectionString(text)
        guard let (name, parameters, path) = parser.parse() else {
            throw ToolError(
                "rclone does not understand the store's place: a connection string is :backend,name='value':path, with a colon before the path."
            )
        }
        // rclone would take the rest of the value, and of the parameters, as a path, which is shown.
        guard !parser.endsWithoutQuotes || !path.contains(":") else {
            throw ToolError(
                "a parameter of \(name) has a colon: put its value in quotes, as in :s3,endpoint='http://host':bucket/path."
            )
        }
        var parts = ShownParts()
        var provider = ""
        for parameter in parameters {
            let value = parts.value(of: parameter.name, parameter.value)
            if parameter.name == "provider", let value { provider = ",provider=\(value)" }
        }
        secrets = Secrets(parts.hidden)
        let isWhole = parameters.allSatisfy { $0.name == "provider" } && secrets.isEmpty
        shown = "\(name)\(provider)\(isWhole ? "" : ",\(Secrets.mark)"):\(path)"
        let isDefinition = name.hasPrefix(":")
        let remote = isDefinition ? Self.remote : name
        guard isDefinition || !parameters.isEmpty else {
            (place, environment) = (text, [:])
            return
        }
        guard isDefinition || remote.firstMatch(of: /^[A-Za-z0-9_-]+$/) != nil else {
            throw ToolError(
                "'\(name)' cannot have parameters here, because the name has other characters than letters, digits, '_' and '-'. Put them into rclone's configuration."
            )
        }
        func variable(_ name: String) -> String {
            "RCLONE_CONFIG_\(remote)_\(name)".uppercased().replacingOccurrences(of: "-", with: "_")
        }
        var environment: [String: String] = [:]
        if isDefinition { environment[variable("type")] = String(name.dropFirst()) }
        for parameter in parameters { environment[variable(parameter.name)] = parameter.value }
        self.environment = environment
        place = "\(remote):\(path)"
    }

    /// The place of an object, or of a folder of objects.
    func place(of path: String) -> String {
        place.hasSuffix("/") || place.hasSuffix(":") ? place + path : "\(place)/\(path)"
    }

    /// Another text, such as a message of rclone's, without credentials.
    func redacting(_ text: String) -> String { secrets.redacting(text) }
}

/// The parts of `name,parameter=value,parameter="va""lue":path`.
private struct ConnectionString {
    private var rest: Substring
    /// Whether the last parameter has a value that is not in quotes.
    private(set) var endsWithoutQuotes = false

    init(_ text: String) { rest = text[...] }

    mutating func parse() -> (name: String, parameters: [(name: String, value: String)], path: String)? {
        var name = ""
        if rest.first == ":" { name.append(rest.removeFirst()) }
        name += take { $0 != ":" && $0 != "," }
        guard name != "", name != ":" else { return nil }
        var parameters: [(String, String)] = []
        while rest.first == "," {
            rest.removeFirst()
            let parameter = take { !"=,:".contains($0) }
            guard !parameter.isEmpty else { return nil }
            guard rest.first == "=" else {
                endsWithoutQuotes = false
                parameters.append((parameter, "true"))
                continue
            }
            rest.removeFirst()
            endsWithoutQuotes = !["'", "\""].contains(rest.first)
            guard let value = value() else { return nil }
            parameters.append((parameter, value))
        }
        guard rest.first == ":" else { return nil }
        return (name, parameters, String(rest.dropFirst()))
    }

    private mutating func take(while condition: (Character) -> Bool) -> String {
        let part = rest.prefix(while: condition)
        rest = rest[part.endIndex...]
        return String(part)
    }

    /// A value. In quotes, a doubled quote is one.
    private mutating func value() -> String? {
        guard let quote = rest.first, quote == "'" || quote == "\"" else { return take { $0 != "," && $0 != ":" } }
        rest.removeFirst()
        var value = ""
        while let next = rest.popFirst() {
            guard next == quote else {
                value.append(next)
                continue
            }
            guard rest.first == quote else { return rest.first == "," || rest.first == ":" ? value : nil }
            value.append(rest.removeFirst())
        }
        return nil
    }
}
