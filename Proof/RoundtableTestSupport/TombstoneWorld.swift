/// The tables of a sync engine that follows deletions. Each id of `issued` was put into a row of `item` in the transaction that issued it.
/// So it is in `item`, or its row is gone, and it belongs into `tombstone`, once.
package enum TombstoneWorld {
    package static let consumer = "engine"

    package static let tables = """
        CREATE TABLE issued (n INTEGER PRIMARY KEY AUTOINCREMENT);
        CREATE TABLE item (k INTEGER PRIMARY KEY, u UNIQUE, serverID TEXT);
        CREATE INDEX item_serverID ON item (serverID);
        CREATE TABLE tombstone (serverID TEXT NOT NULL);
        """

    /// Issues an id, gives it to a row that replaces up to two others, replaces a row by one without an id, and deletes a row.
    package static let change = """
        INSERT INTO issued DEFAULT VALUES;
        INSERT OR REPLACE INTO item (k, u, serverID) SELECT abs(random() % 40), abs(random() % 60), 's' || max(n) FROM issued;
        REPLACE INTO item (k) SELECT abs(random() % 40) WHERE random() % 5 = 0;
        UPDATE OR REPLACE item SET u = abs(random() % 60) WHERE k = abs(random() % 40);
        DELETE FROM item WHERE k = abs(random() % 40);
        """

    /// Records the id `:id`, unless a row has it.
    package static let recordIfGone = """
        INSERT INTO tombstone SELECT :id WHERE NOT EXISTS (SELECT 1 FROM item WHERE serverID = :id)
        """

    /// The ids that are in no place, or in more than one.
    package static let wrong = """
        SELECT id FROM (
            SELECT 's' || n AS id FROM issued
        ) WHERE (SELECT count(*) FROM item WHERE serverID = id) + (SELECT count(*) FROM tombstone WHERE serverID = id) <> 1
        """
}
