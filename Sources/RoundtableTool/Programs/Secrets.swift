import Foundation

/// Credentials that must not be shown.
struct Secrets: Equatable, Sendable {
    /// The credentials as they were given and decoded; the longest first, because one may contain another.
    private let texts: [String]

    init(_ given: [String]) {
        let decoded = given.flatMap { secret in
            [secret.removingPercentEncoding, secret.replacingOccurrences(of: "+", with: " ").removingPercentEncoding]
                .compactMap(\.self)
        }
        texts = Set((given + decoded).filter { !$0.isEmpty }).sorted { ($1.count, $0) < ($0.count, $1) }
    }

    /// A text without the credentials.
    func redacting(_ text: String) -> String {
        texts.reduce(text) { $0.replacingOccurrences(of: $1, with: "…") }
    }

    /// Whether the value of a parameter may be a credential, by its name in lower case.
    static func mayBeSecret(parameter: String) -> Bool {
        ["key", "secret", "token", "pass", "sig", "credential", "auth", "nkey", "jwt", "seed", "sas_url"]
            .contains { parameter.contains($0) }
    }
}
