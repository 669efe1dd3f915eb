// For iOS.

import GRDB
import Roundtable

func showPlaceholder(for reason: SharedDatabase.Unavailability) {}
