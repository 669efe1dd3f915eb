import Roundtable

func reloadWidget(for changes: [HistoryChange]) {}
func reloadEverything() {}
