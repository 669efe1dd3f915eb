import Roundtable

func showInDebugMenu(_ health: WALHealth) {}
