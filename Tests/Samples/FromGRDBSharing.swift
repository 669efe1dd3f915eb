// For iOS.

import GRDB
import Roundtable

func keepWAL(_ db: Database) throws {}
func showPlaceholder(for reason: SharedDatabase.Unavailability) {}
