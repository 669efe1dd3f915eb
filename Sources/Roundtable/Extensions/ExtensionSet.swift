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
        /// Of the same version. Fingerprints of the definitions.
        case definition(declared: String, stored: String)
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
                different[one.name] = .definition(declared: one.fingerprint, stored: other.fingerprint)
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
            case .definition(let declared, let stored):
                parts.append(
                    "'\(name)' is defined differently (\(stored) in the database, \(declared) in this program)"
                )
            }
        }
        return parts.joined(separator: "; ")
    }

    private static func list(_ names: [String]) -> String { names.map { "'\($0)'" }.joined(separator: ", ") }
}
