import Foundation
import GRDB

/// The extensions that every program which writes a database declares (rule E4).
///
/// Programs of one revision must have the same extensions. To add, change or drop one, raise the revision, and its version where it stays:
/// the first program to open the database so upgrades it. Programs of an earlier revision that have it open go on writing, since what
/// is derived is derived by the database; when they open it the next time, for writing, they are told that they are too old.
public struct ExtensionSet: Sendable {
    public let revision: Int
    public let extensions: [any SharedExtension]

    /// - Parameters:
    ///   - revision: 1 for the first, and higher for each that differs.
    ///   - extensions: with different names. In any order.
    public init(revision: Int, _ extensions: [any SharedExtension]) {
        precondition(revision > 0, "the revision of a set of extensions is above 0")
        self.revision = revision
        self.extensions = extensions
    }

    private init() {
        revision = 0
        extensions = []
    }

    /// That of a program which declares none.
    static let empty = ExtensionSet()

    var described: [DescribedExtension] { extensions.map(DescribedExtension.init) }
}

/// An extension with what the database knows of it.
struct DescribedExtension: Sendable {
    let name: String
    let version: Int
    let definition: ExtensionDefinition
    let functions: [DatabaseFunction]
    var fingerprint: String { definition.fingerprint }

    init(_ given: any SharedExtension) {
        name = given.name
        version = given.version
        definition = given.definition
        functions = given.functions
    }
}

/// How the extensions that a program declares differ from those of a database.
public struct ExtensionDifference: Sendable, Equatable {
    /// In the database, and not declared.
    public var missing: [String] = []
    /// Declared, and not in the database.
    public var extra: [String] = []
    /// In both, with another version or definition.
    public var different: [String: Disagreement] = [:]

    public enum Disagreement: Sendable, Equatable {
        case version(declared: Int, stored: Int)
        /// Of the same version. Fingerprints of the definitions, and what differs; nothing, when that cannot be told.
        case definition(declared: String, stored: String, parts: [DefinitionPart])
    }

    /// An argument of an extension's declaration that is not the same in a program and in a database.
    public struct DefinitionPart: Sendable, Equatable {
        /// The argument's name: `of`, `where`, `fields` …; `kind` where it is another kind of extension.
        public let name: String
        /// A text as it is, anything else as JSON; nil when there is none.
        public let declared: String?
        public let stored: String?
    }

    public var isEmpty: Bool { missing.isEmpty && extra.isEmpty && different.isEmpty }

    init() {}

    init(declared: [DescribedExtension], stored: [StoredExtension]) {
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

    /// What a higher revision of the set does not explain.
    var contradictions: ExtensionDifference {
        var rest = ExtensionDifference()
        rest.different = different.filter { _, disagreement in
            switch disagreement {
            case .version(let declared, let stored): declared < stored
            case .definition: true
            }
        }
        return rest
    }
}

extension ExtensionDifference: CustomStringConvertible {
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

extension ExtensionDifference.Disagreement {
    static func definition(_ declared: ExtensionDefinition, _ stored: StoredExtension) -> Self {
        .definition(
            declared: declared.fingerprint,
            stored: stored.fingerprint,
            parts: ExtensionDifference.DefinitionPart.differing(declared.configuration, stored.configuration)
        )
    }
}

extension ExtensionDifference.DefinitionPart: CustomStringConvertible {
    public var description: String {
        let texts = [stored, declared].map { $0.map { "'\($0)'" } ?? "none" }
        // Of long ones, one would have to look for the difference.
        if texts.contains(where: { $0.count > Self.longest }) { return name }
        return "\(name): \(texts[0]) in the database, \(texts[1]) in this program"
    }

    private static let longest = 120

    /// Of two configurations. What is in the file may be anything.
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
