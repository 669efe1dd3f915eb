import GRDB

func importEverything(_ db: Database) throws {}
