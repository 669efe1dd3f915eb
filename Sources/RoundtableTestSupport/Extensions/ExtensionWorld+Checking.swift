import GRDB
import Roundtable
import RoundtableTestKit

extension ExtensionWorld {
    /// The differences between the content of the extensions and what follows from their base tables; empty when there are none.
    package static func discrepancies(of extensions: [any SharedExtension] = all, _ db: Database) throws -> [String] {
        try ExtensionRecomputation.discrepancies(of: extensions, words: RandomStatements.vocabulary, db)
    }
}
