import Foundation
import GRDB

// Rule E4: A program declares a *set*: extensions with name, version and configuration, and the set's revision. A read-write opener
// compares it with what is stored, before it writes anything. At the stored revision, all must be equal in names, versions and
// fingerprints; a lower one is too new a database; a higher one upgrades (E5), unless an extension has a lower version, or the same one
// with another fingerprint. A schema of which nothing is known declares no set. Read-only openers are not compared; each use is (E8).

/// The extensions that every program which writes a database declares (rule E4).
///
/// Programs of one revision must declare the same extensions. To add, change or drop an extension, raise the revision. If an extension
/// changes, raise its version, too. The first program that opens the database with the new revision upgrades it. Programs of an earlier
/// revision that have the database open continue to write, because the database itself derives the rows. When such a program next opens the
/// database for writing, it gets an error that says that it is too old.
public struct ExtensionSet: Sendable {
    public let revision: Int
    public let extensions: [any SharedExtension]

    /// - Parameters:
    ///   - revision: 1 for the first set, and higher for each changed set.
    ///   - extensions: the extensions, in any order. Their names must differ.
    public init(revision: Int, _ extensions: [any SharedExtension]) {
        precondition(revision > 0, "the revision of a set of extensions is above 0")
        self.revision = revision
        self.extensions = extensions
    }

    private init() {
        revision = 0
        extensions = []
    }

    /// The set of a program that declares no extensions.
    static let empty = ExtensionSet()

    var described: [DescribedExtension] { extensions.map(DescribedExtension.init) }
}

/// The properties of a declared extension.
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
