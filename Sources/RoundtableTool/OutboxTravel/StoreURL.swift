import Foundation

/// Where a store is, as `rclone` takes it: the path of a folder, `remote:path`, or a connection string such as
/// `:s3,provider=Other,endpoint='http://host':bucket/path`, which may hold credentials.
struct StoreURL: Equatable, Sendable {
    /// The place for arguments of `rclone`, without credentials.
    let place: String
    /// The environment that defines the remote, with the parameters of a connection string. The arguments of a process are visible to all
    /// users, its environment is not.
    let environment: [String: String]
    /// The place as it was given, without credentials.
    let shown: String
    private let secrets: Secrets

    /// The name of the remote that a connection string defines.
    private static let remote = "roundtable"

    /// - throws: `ToolError` when `rclone` would not understand it.
    init(_ text: String) throws(ToolError) {
        guard !text.isEmpty, !text.hasPrefix("-"), !text.contains(where: \.isNewline), !text.contains("\0") else {
            throw ToolError("'\(text)' is no place for rclone. Give the path of a folder, or remote:path.")
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
                "rclone does not understand \(text.prefix { !":,".contains($0) }): a connection string is :backend,name='value':path, with a colon before the path."
            )
        }
        // rclone would take the rest of the parameters as a path, which is shown.
        guard path.firstMatch(of: /,[A-Za-z_]+=/) == nil else {
            throw ToolError(
                "a parameter of \(name) has a colon: put its value in quotes, as in :s3,endpoint='http://host':bucket/path."
            )
        }
        secrets = Secrets(
            parameters.filter { Secrets.mayBeSecret(parameter: $0.name.lowercased()) }.map(\.value)
                .filter { !["true", "false"].contains($0) }
        )
        shown = secrets.redacting(text)
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
                parameters.append((parameter, "true"))
                continue
            }
            rest.removeFirst()
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
