import GRDB
import Roundtable

var metadataMigrator: DatabaseMigrator { fatalError() }
