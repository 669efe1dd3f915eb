import Roundtable

func showPlaceholder(for reason: SharedDatabase.Unavailability) {}
