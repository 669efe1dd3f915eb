import Foundation

/// How the derived tables that a program declares differ from those of a database.
public struct DerivedTableDifference: Sendable, Equatable {
    /// The derived tables in the database that are not declared.
    public var missing: [String] = []
    /// The declared derived tables that are not in the database.
    public var extra: [String] = []
    /// The derived tables in both whose version or definition differs, by name.
    public var different: [String: Disagreement] = [:]

    public enum Disagreement: Sendable, Equatable {
        case version(declared: Int, stored: Int)
        /// The versions are the same, but the definitions differ. `declared` and `stored` are the fingerprints of the definitions. `parts`
        /// is what differs, and is empty if that cannot be determined.
        case definition(declared: String, stored: String, parts: [DefinitionPart])
    }

    /// An argument of a derived table's declaration that is not the same in a program and in a database.
    public struct DefinitionPart: Sendable, Equatable {
        /// The argument's name: `of`, `where`, `fields` …, or `kind` if it is another kind of derived table.
        package let name: String
        /// The declared value: a text as it is, or anything else as JSON. It is nil if there is none.
        package let declared: String?
        package let stored: String?
    }

    public var isEmpty: Bool { missing.isEmpty && extra.isEmpty && different.isEmpty }

    init() {}

    init(declared: [DescribedDerivedTable], stored: [StoredDerivedTable]) {
        let known = Dictionary(uniqueKeysWithValues: stored.map { ($0.name, $0) })
        missing = Set(known.keys).subtracting(declared.map(\.name)).sorted()
        for one in declared {
            guard let other = known[one.name] else {
                extra.append(one.name)
                continue
            }
            if one.version != other.version {
                different[one.name] = .version(declared: one.version, stored: other.version)
            } else if one.fingerprint != other.fingerprint {
                different[one.name] = .definition(one.definition, other)
            }
        }
        extra.sort()
    }

    /// The differences that a higher revision of the set does not allow.
    var contradictions: DerivedTableDifference {
        var rest = DerivedTableDifference()
        rest.different = different.filter { _, disagreement in
            switch disagreement {
            case .version(let declared, let stored): declared < stored
            case .definition: true
            }
        }
        return rest
    }
}

extension DerivedTableDifference: CustomStringConvertible {
    public var description: String {
        var parts: [String] = []
        if !missing.isEmpty { parts.append("not declared by this program: \(Self.list(missing))") }
        if !extra.isEmpty { parts.append("not in the database: \(Self.list(extra))") }
        for (name, disagreement) in different.sorted(by: { $0.key < $1.key }) {
            switch disagreement {
            case .version(let declared, let stored):
                parts.append("'\(name)' has version \(stored) in the database, and \(declared) in this program")
            case .definition(let declared, let stored, let differing):
                let what =
                    differing.isEmpty
                    ? "\(stored) in the database, \(declared) in this program"
                    : differing.map(\.description).joined(separator: "; ")
                parts.append("'\(name)' is defined differently (\(what))")
            }
        }
        return parts.joined(separator: "; ")
    }

    private static func list(_ names: [String]) -> String { names.map { "'\($0)'" }.joined(separator: ", ") }
}

extension DerivedTableDifference.Disagreement {
    static func definition(_ declared: DerivedTableDefinition, _ stored: StoredDerivedTable) -> Self {
        .definition(
            declared: declared.fingerprint,
            stored: stored.fingerprint,
            parts: DerivedTableDifference.DefinitionPart.differing(declared.configuration, stored.configuration)
        )
    }
}

extension DerivedTableDifference.DefinitionPart: CustomStringConvertible {
    public var description: String {
        let texts = [stored, declared].map { $0.map { "'\($0)'" } ?? "none" }
        // Long values are left out, because the difference is hard to find in them.
        if texts.contains(where: { $0.count > Self.longest }) { return name }
        return "\(name): \(texts[0]) in the database, \(texts[1]) in this program"
    }

    private static let longest = 120

    /// Compares two configurations. The stored one may be anything, because it comes from the file.
    static func differing(_ declared: String, _ stored: String) -> [Self] {
        guard let declared = values(declared), let stored = values(stored) else { return [] }
        return Set(declared.keys).union(stored.keys).sorted().compactMap { name in
            let part = Self(name: name, declared: declared[name], stored: stored[name])
            return part.declared == part.stored ? nil : part
        }
    }

    private static func values(_ configuration: String) -> [String: String]? {
        guard let object = try? JSONSerialization.jsonObject(with: Data(configuration.utf8)) as? [String: Any]
        else { return nil }
        return object.mapValues { value in
            if let text = value as? String { return text }
            let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes, .fragmentsAllowed]
            let bytes = try? JSONSerialization.data(withJSONObject: value, options: options)
            return bytes.map { String(decoding: $0, as: UTF8.self) } ?? "\(value)"
        }
    }
}
